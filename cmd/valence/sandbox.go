package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox/image"
)

func newSandboxCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Pull, list and remove the container images of sandboxes",
		Args:  cobra.ArbitraryArgs,
		RunE:  needsVerb,
	}
	cmd.AddCommand(newSandboxPrewarmCommand(a), newSandboxImagesCommand(a), newSandboxGCCommand(a))
	return cmd
}

// storeFlags are those of a verb that works on the image store.
type storeFlags struct {
	*configFlags
	dir string
}

func (a *app) storeFlags(cmd *cobra.Command) *storeFlags {
	f := &storeFlags{configFlags: a.configFlags(cmd)}
	cmd.Flags().StringVar(&f.dir, "store", "", "image `folder` in place of the configured one")
	return f
}

// load reads the configuration, if one is given, and puts the store where the flags say.
func (f *storeFlags) load() (*config.Config, error) {
	c := &config.Config{}
	if f.path != "" {
		var err error
		if c, err = f.configFlags.load(); err != nil {
			return nil, err
		}
	}
	if f.dir != "" {
		c.Sandbox.Images.Store = f.dir
	}
	return c, nil
}

// open gives the configuration, its store and what is kept there.
func (f *storeFlags) open(ctx context.Context, a *app) (*config.Config, *image.Store, shelf, error) {
	c, err := f.load()
	if err != nil {
		return nil, nil, shelf{}, err
	}
	store, err := run.Images(c.Sandbox, a.logger(), nil)()
	if err != nil {
		return nil, nil, shelf{}, err
	}
	kept, err := look(ctx, c, store)
	return c, store, kept, err
}

// prewarmed is the result of sandbox prewarm.
type prewarmed struct {
	Images []warmed `json:"images"`
	Failed int      `json:"failed"`
}

// warmed is one image of it.
type warmed struct {
	Ref     string         `json:"ref"`
	Digest  string         `json:"digest,omitempty"`
	Layers  int            `json:"layers,omitempty"`
	Bytes   int64          `json:"bytes,omitempty"`
	Seconds float64        `json:"seconds"`
	Error   map[string]any `json:"error,omitempty"`
}

func (r prewarmed) table(w io.Writer, p palette) {
	g := grid{head: []string{"IMAGE", "SIZE", "LAYERS", "TIME", "DIGEST"}, left: map[int]bool{4: true}}
	for _, i := range r.Images {
		if i.Error != nil {
			g.add(i.Ref, "-", "-", fmt.Sprintf("%.1fs", i.Seconds), p.in(p.red, "FAILED"))
			continue
		}
		g.add(i.Ref, sized(int(i.Bytes)), fmt.Sprint(i.Layers), fmt.Sprintf("%.1fs", i.Seconds), i.Digest)
	}
	if len(r.Images) == 0 {
		fmt.Fprintln(w, "no image is named: tasks run on this machine's tool chain")
		return
	}
	g.write(w, p)
}

func newSandboxPrewarmCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prewarm [REF... | -c FILE]",
		Short: "Pull the images that a run needs, or those that are named, before it starts",
		Long: `Pull and unpack images, so that no episode waits for one: those that are named, or all that
a run's configuration and the tasks of its sources name. References are those of tasks:
repository:tag, repository@sha256:…, tar:PATH, oci:PATH or dir:PATH.

All images are tried. The exit code is 12 if a registry or this machine was at fault, and 1
if an image is.`,
		Args: cobra.ArbitraryArgs,
	}
	f := a.storeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, refs []string) error {
		if len(refs) == 0 && f.path == "" {
			return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C041", Summary: "no image and no configuration given",
				Hint: "name images, or a run with -c FILE"}
		}
		c, err := f.load()
		if err != nil {
			return err
		}
		v := a.newView(c)
		defer v.close()
		if len(refs) == 0 {
			if refs, err = run.NamedImages(cmd.Context(), c, run.Options{Log: a.logger(), Observe: v.observe, Locked: f.locked}); err != nil {
				return err
			}
		}
		store, err := run.Images(c.Sandbox, a.logger(), func(p image.Progress) {
			v.pulling(p.Ref, int(p.Done>>20), int((p.Total+1<<20-1)>>20))
		})()
		if err != nil {
			return err
		}
		r, failures := prewarmed{Images: []warmed{}}, []error(nil)
		for _, ref := range refs {
			v.opening("image " + ref)
			one, err := warm(cmd.Context(), store, ref)
			if cmd.Context().Err() != nil {
				return err
			}
			if err != nil {
				failures = append(failures, err)
				r.Failed++
			}
			r.Images = append(r.Images, one)
			v.told("image", one)
		}
		v.close()
		if err := a.out.result(r); err != nil {
			return err
		}
		return errors.Join(failures...)
	}
	return cmd
}

// warm has one image in the store.
func warm(ctx context.Context, store *image.Store, ref string) (warmed, error) {
	began := time.Now()
	w := warmed{Ref: ref}
	i, err := store.Get(ctx, ref)
	w.Seconds = time.Since(began).Seconds()
	if err != nil {
		w.Error = failure(err)
		return w, err
	}
	w.Digest, w.Layers, w.Bytes = i.Digest, len(i.Layers), i.Size
	return w, i.Close()
}

// shelf is the result of sandbox images and of sandbox gc.
type shelf struct {
	Store  string      `json:"store"`
	Images []keptImage `json:"images"`
	gone   int         // -1: nothing was to be removed
}

// keptImage is one image of it.
type keptImage struct {
	Refs   []string  `json:"refs"`
	Digest string    `json:"digest"`
	Bytes  int64     `json:"bytes"`
	Layers int       `json:"layers"`
	Used   time.Time `json:"used"`
	InUse  bool      `json:"in_use"`
}

func (r shelf) table(w io.Writer, p palette) {
	if r.gone >= 0 {
		fmt.Fprintf(w, "%s %d of %d images\n", p.in(p.green, "removed"), r.gone, r.gone+len(r.Images))
	}
	if len(r.Images) == 0 {
		fmt.Fprintf(w, "no image is kept in %s\n", r.Store)
		return
	}
	g := grid{head: []string{"IMAGE", "SIZE", "LAYERS", "USED", "DIGEST"}, left: map[int]bool{4: true}}
	for _, i := range r.Images {
		name, used := strings.Join(i.Refs, " "), i.Used.Format("2006-01-02 15:04")
		if name == "" {
			name = "(imported)"
		}
		if i.InUse {
			used = "now"
		}
		g.add(name, sized(int(i.Bytes)), fmt.Sprint(i.Layers), used, i.Digest)
	}
	g.write(w, p)
}

// look lists what the store of a configuration has.
func look(ctx context.Context, c *config.Config, store *image.Store) (shelf, error) {
	r := shelf{Store: c.Sandbox.Images.Store, Images: []keptImage{}, gone: -1}
	if r.Store == "" {
		r.Store = run.ImageDir()
	}
	all, err := store.List(ctx)
	for _, k := range all {
		if k.Refs == nil {
			k.Refs = []string{}
		}
		r.Images = append(r.Images, keptImage{k.Refs, k.Digest, k.Size, k.Layers, k.Used.UTC(), k.InUse})
	}
	return r, err
}

func newSandboxImagesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images that are kept, those used last first",
		Args:  cobra.NoArgs,
	}
	f := a.storeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, _, r, err := f.open(cmd.Context(), a)
		if err != nil {
			return err
		}
		return a.out.result(r)
	}
	return cmd
}

func newSandboxGCCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove every image that no process uses",
		Args:  cobra.NoArgs,
	}
	f := a.storeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, store, before, err := f.open(cmd.Context(), a)
		if err != nil {
			return err
		}
		if err := store.Clear(cmd.Context()); err != nil {
			return err
		}
		r, err := look(cmd.Context(), c, store)
		if err != nil {
			return err
		}
		r.gone = len(before.Images) - len(r.Images)
		return a.out.result(r)
	}
	return cmd
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/registry"
)

func newPluginCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Build, list and show plugins",
		Args:  cobra.NoArgs,
		RunE:  needsVerb,
	}
	cmd.AddCommand(newPluginNewCommand(a), newPluginBuildCommand(a), newPluginListCommand(a), newPluginShowCommand(a), newPluginExamineCommand(a), newPluginSwapCommand(a))
	return cmd
}

// module is what the plugin verbs say of one plugin.
type module struct {
	Ref          string   `json:"ref"`
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	ABI          int      `json:"abi"`
	Roles        []string `json:"roles"`
	Capabilities []string `json:"capabilities"`
	Description  string   `json:"description,omitempty"`
	Licence      string   `json:"licence,omitempty"`
	Digest       string   `json:"digest,omitempty"`
	Bytes        int      `json:"bytes,omitempty"`
	Seconds      float64  `json:"seconds,omitempty"` // that building or finding it took
}

func describeModule(ref string, m registry.Manifest) module {
	return module{Ref: ref, Name: m.Name, Version: m.Version, ABI: m.ABI, Roles: m.Roles, Capabilities: m.Capabilities, Description: m.Description, Licence: m.Licence}
}

type modules []module

func (ms modules) table(w io.Writer, p palette) {
	g := grid{head: []string{"PLUGIN", "VERSION", "ROLES", "CAPABILITIES", "SIZE", "DIGEST"}, left: map[int]bool{1: true, 2: true, 3: true, 5: true}}
	for _, m := range ms {
		size := ""
		if m.Bytes > 0 {
			size = fmt.Sprintf("%.1f MB", float64(m.Bytes)/1e6)
		}
		g.add(m.Ref, m.Version, strings.Join(m.Roles, " "), strings.Join(m.Capabilities, " "), size, short(m.Digest))
	}
	g.write(w, p)
}

func (m module) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s (wasm, abi v%d, %s)\n", p.in(p.bold, "plugin "+m.Name), m.Version, m.ABI, short(m.Digest))
	if m.Description != "" {
		fmt.Fprintf(w, "%s\n", m.Description)
	}
	g := grid{left: map[int]bool{1: true}}
	g.add("from", m.Ref)
	g.add("roles", strings.Join(m.Roles, ", "))
	g.add("capabilities", strings.Join(m.Capabilities, ", "))
	g.add("licence", m.Licence)
	g.add("size", fmt.Sprintf("%.1f MB", float64(m.Bytes)/1e6))
	g.add("digest", m.Digest)
	g.write(w, p)
}

func short(digest string) string {
	if len(digest) > 19 {
		return digest[:19] + "…"
	}
	return digest
}

// pluginFolders are the folders below the arguments that hold a plugin.toml. Without
// arguments that is the working folder, if it is a plugin, or what lies in plugins.
func pluginFolders(args []string) ([]string, error) {
	if len(args) == 0 {
		args = []string{"plugins"}
		if _, err := os.Stat(registry.ManifestFile); err == nil {
			args = []string{"."}
		}
	}
	var out []string
	for _, root := range args {
		if strings.HasSuffix(root, ".wasm") {
			out = append(out, root)
			continue
		}
		n := len(out)
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && p != root) {
				return filepath.SkipDir
			}
			if !d.IsDir() && d.Name() == "plugin.toml" {
				out = append(out, filepath.Dir(p))
			}
			return nil
		})
		if errors.Is(err, os.ErrNotExist) || err == nil && len(out) == n {
			return nil, diag.Errorf(diag.KindPlugin, "find plugins", root, "no plugin.toml there; name a plugin's folder or one above it")
		}
		if err != nil {
			return nil, diag.Wrap(diag.KindPlugin, "find plugins", root, err)
		}
	}
	slices.Sort(out)
	return out, nil
}

func newPluginBuildCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "build [FOLDER…]",
		Short: "Compile plugins to WASM, as far as the cache does not have them",
		RunE: func(cmd *cobra.Command, args []string) error {
			folders, err := pluginFolders(args)
			if err != nil {
				return err
			}
			var out modules
			for _, f := range folders {
				started := time.Now()
				m, err := registry.Resolve(cmd.Context(), f, registry.Options{})
				if err != nil {
					return err
				}
				d := describeModule(f, m.Manifest)
				d.Digest, d.Bytes, d.Seconds = m.Digest, len(m.Wasm), time.Since(started).Seconds()
				out = append(out, d)
			}
			if a.quiet && a.output == "table" {
				return nil
			}
			return a.out.result(out)
		},
	}
}

func newPluginListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list [FOLDER…]",
		Short: "List plugins by their manifests",
		RunE: func(_ *cobra.Command, args []string) error {
			folders, err := pluginFolders(args)
			if err != nil {
				return err
			}
			var out modules
			for _, f := range folders {
				m, err := registry.ReadManifest(f, f)
				if err != nil {
					return err
				}
				out = append(out, describeModule(f, *m))
			}
			return a.out.result(out)
		},
	}
}

func newPluginShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show REF",
		Short: "Load one plugin and show what it says of itself",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := registry.Resolve(cmd.Context(), args[0], registry.Options{})
			if err != nil {
				return err
			}
			p, err := host.Load(cmd.Context(), m, host.Options{Grants: m.Manifest.Capabilities, Log: a.logger()})
			if err != nil {
				return err
			}
			defer p.Close()
			d := describeModule(args[0], m.Manifest)
			d.Digest, d.Bytes = m.Digest, len(m.Wasm)
			return a.out.result(d)
		},
	}
}

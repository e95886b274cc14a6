package run

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/local"
)

// ImageDir is where images are kept that no configuration puts elsewhere: a folder of
// this user's cache.
func ImageDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "valence", "images")
}

// Images opens the store that a configuration names, when it is called first. The local
// driver takes images out of it. progress may be nil.
func Images(c config.Sandbox, log *slog.Logger, progress func(image.Progress)) func() (*image.Store, error) {
	return sync.OnceValues(func() (*image.Store, error) {
		dir := c.Images.Store
		if dir == "" {
			dir = ImageDir()
		}
		mirrors := map[string][]string{}
		for registry, places := range c.Images.Mirrors {
			mirrors[registry] = strings.Fields(places)
		}
		return image.Open(dir, image.Options{Form: local.Form(), Size: int64(c.Images.Size), Mirrors: mirrors, Progress: progress, Log: log})
	})
}

// pulling tells how far an image is.
func (s *Setup) pulling(p image.Progress) {
	const mib = 1 << 20
	s.observe(Event{Kind: Pulling, Text: p.Ref, Done: int(p.Done / mib), Total: int((p.Total + mib - 1) / mib)})
}

// NamedImages gives the images that a configuration and the tasks of its sources name,
// sorted. It opens the plugins and builds the tasks, which takes as long as it does for a
// run. The image that the configuration names is had by then, as tasks are built on it.
func NamedImages(ctx context.Context, cfg *config.Config, o Options) (refs []string, err error) {
	s, err := Open(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	if cfg.Sandbox.Image != "" {
		refs = append(refs, cfg.Sandbox.Image)
	}
	for _, k := range s.Skills {
		b := k.Binding()
		for _, t := range b.Train {
			refs = append(refs, t.Workspace.Image)
		}
		for _, tasks := range b.Eval {
			for _, t := range tasks {
				refs = append(refs, t.Workspace.Image)
			}
		}
	}
	slices.Sort(refs)
	refs = slices.Compact(refs)
	return slices.DeleteFunc(refs, func(r string) bool { return r == "" }), nil
}

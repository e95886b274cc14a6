package run

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/valence-rl/valence/core/diag"
)

// quiet is how long a folder must be left alone before its change is looked at:
// editors write a file in several strokes.
const quiet = 200 * time.Millisecond

// watch tells on the channel that something in a folder has changed, until ctx
// ends. Changes that come while nobody listens are one.
func watch(ctx context.Context, dir string) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "watch folder", dir, err)
	}
	if err := w.Add(dir); err != nil {
		w.Close()
		return nil, diag.Wrap(diag.KindData, "watch folder", dir, err)
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer w.Close()
		pause := time.NewTimer(0)
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-w.Events:
				if !ok {
					return
				}
				pause.Reset(quiet)
			case <-w.Errors: // too much happened at once: look
				pause.Reset(quiet)
			case <-pause.C:
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		}
	}()
	return changed, nil
}

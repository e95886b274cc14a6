package local

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
	"github.com/valence-rl/valence/sdk"
)

// Patches are laid down as the corpus says, on a workspace's own files and on those of an
// image, or refused for what they are: a fault of the data, and none of the sandbox.
func TestHostilePatches(t *testing.T) {
	var all []hostile.Diff
	layer := []imagetest.Entry{imagetest.Folder("cases")}
	place := func(i int) string { return fmt.Sprintf("/cases/%d", i) }
	for _, d := range hostile.Diffs() {
		if d.Never == "MiB" || len(d.Text) > 1<<20 {
			continue // it is the same for core/patch alone, and takes long
		}
		dir := strings.TrimPrefix(place(len(all)), "/")
		layer = append(layer, imagetest.Folder(dir))
		for _, c := range d.Before {
			switch {
			case !utf8.ValidString(c.Path):
			case c.Symlink != "":
				layer = append(layer, imagetest.Link(dir+"/"+c.Path, c.Symlink))
			default:
				e := imagetest.File(dir+"/"+c.Path, string(c.Data))
				if c.Exec {
					e = e.Allow(0o755)
				}
				layer = append(layer, e)
			}
		}
		all = append(all, d)
	}
	ref := saved(t, v1.Config{}, base(t), imagetest.Layer(t, layer...))
	d := imageDriver(t, Options{})
	for i, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			lays(t, d, &c, c.Never+c.Here, sdk.Workspace{Image: ref, Dir: place(i), Patches: []string{c.Text}})
			if len(c.Files()) < len(c.Before) {
				return
			}
			want := c.Never + c.Here
			for _, a := range c.After {
				if a.Symlink != "" && want == "" {
					want = "symbolic link" // a workspace of files has none
				}
			}
			lays(t, d, &c, want, sdk.Workspace{Files: c.Files(), Patches: []string{c.Text}})
		})
	}
}

// lays makes a sandbox of a workspace, and holds it to what the corpus says.
func lays(t *testing.T, d *Driver, c *hostile.Diff, refused string, w sdk.Workspace) {
	t.Helper()
	box, err := d.Create(t.Context(), sandbox.Spec{Workspace: w})
	if refused != "" {
		if diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), refused) {
			t.Errorf("want a refusal with %q, got %v", refused, err)
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer box.Close()
	for _, a := range c.After {
		data, err := box.Read(t.Context(), a.Path, 0)
		switch {
		case a.Deleted:
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q is there: %q, %v", a.Path, data, err)
			}
		case a.Symlink != "":
			if r, err := box.Exec(t.Context(), sandbox.Command{Args: []string{"ls", "-l", "--", a.Path}}); err != nil || !strings.HasSuffix(string(r.Output), " -> "+a.Symlink+"\n") {
				t.Errorf("%q is no link to %q: %s, %v", a.Path, a.Symlink, r.Output, err)
			}
		case err != nil || string(data) != string(a.Data):
			t.Errorf("%q: %d bytes, %v", a.Path, len(data), err)
		}
	}
	if changes, err := box.Diff(t.Context(), 0); err != nil || len(changes) > 0 {
		t.Errorf("it differs from itself: %s, %v", hostile.Brief(changes), err)
	}
}

package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
)

// Lay writes files and links to a folder of the host.
func Lay(dir string, tree []sdk.Change) error {
	for _, c := range tree {
		name := filepath.Join(dir, filepath.FromSlash(c.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if c.Symlink != "" {
			if err := os.Symlink(c.Symlink, name); err != nil {
				return err
			}
			continue
		}
		mode := os.FileMode(0o644)
		if c.Exec {
			mode = 0o755
		}
		if err := os.WriteFile(name, c.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

// Differences gives what differs in a folder of the host from what was laid there.
func Differences(t testing.TB, dir string, before []sdk.Change) []sdk.Change {
	t.Helper()
	now := map[string]sdk.Change{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		c := sdk.Change{Path: filepath.ToSlash(rel)}
		if e.Type()&fs.ModeSymlink != 0 {
			c.Symlink, err = os.Readlink(p)
		} else if data, e2 := os.ReadFile(p); e2 != nil {
			err = e2
		} else {
			if len(data) > 0 {
				c.Data = data
			}
			var info fs.FileInfo
			info, err = e.Info()
			c.Exec = err == nil && info.Mode()&0o100 != 0
		}
		now[c.Path] = c
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []sdk.Change
	for _, b := range before {
		n, still := now[b.Path]
		delete(now, b.Path)
		switch {
		case !still:
			out = append(out, sdk.Change{Path: b.Path, Deleted: true})
		case !alike(b, n):
			out = append(out, n)
		}
	}
	for _, n := range now {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

package toolserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/sdk/wire"
)

func TestTree(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(name, data string, mode os.FileMode) {
		t.Helper()
		full := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(full), 0o755))
		must(os.WriteFile(full, []byte(data), mode))
		must(os.Chmod(full, mode))
	}
	file("same", "1", 0o644)
	file("touched", "1", 0o644)
	file("edited", "1", 0o644)
	file("run", "1", 0o755)
	file("sub/gone", "1", 0o644)
	file("was/dir", "1", 0o644)
	file(".git/config", "1", 0o644)
	file("lib/.git/HEAD", "1", 0o644)
	must(os.Symlink("same", filepath.Join(dir, "link")))
	tree, err := Remember(dir)
	must(err)
	if _, err := os.Stat(filepath.Join(dir, "lib/.git")); !os.IsNotExist(err) {
		t.Errorf("version control is left: %v", err)
	}
	if got, err := tree.Diff(1 << 20); err != nil || len(got) > 0 {
		t.Fatalf("nothing was done: %v, %v", got, err)
	}
	file("touched", "1", 0o644)
	file("edited", "2", 0o644)
	must(os.Chmod(filepath.Join(dir, "run"), 0o644))
	must(os.RemoveAll(filepath.Join(dir, "sub")))
	must(os.RemoveAll(filepath.Join(dir, "was")))
	file("was", "now a file", 0o600)
	must(os.Remove(filepath.Join(dir, "link")))
	must(os.Symlink("run", filepath.Join(dir, "link")))
	file(".git/config", "made later", 0o644)
	got, err := tree.Diff(1 << 20)
	must(err)
	if d := cmp.Diff([]wire.Change{
		{Path: ".git/config", Data: []byte("made later")},
		{Path: "edited", Data: []byte("2")},
		{Path: "link", Symlink: "run"},
		{Path: "run", Data: []byte("1")},
		{Path: "sub/gone", Deleted: true},
		{Path: "was", Data: []byte("now a file")},
		{Path: "was/dir", Deleted: true},
	}, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
	if _, err := tree.Diff(100); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}

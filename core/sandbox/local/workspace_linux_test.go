package local

import (
	"container/list"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

func newWorkspaces(t *testing.T, most int64) *workspaces {
	t.Helper()
	return &workspaces{dir: t.TempDir(), owner: -1, most: most, known: map[string]*workspace{}, unused: list.New()}
}

func one(name, data string) *sdk.Workspace {
	return &sdk.Workspace{Files: []sdk.File{{Path: name, Data: []byte(data)}}}
}

func TestWorkspacesAreShared(t *testing.T) {
	c := newWorkspaces(t, 1<<20)
	var all sync.WaitGroup
	got := make([]*workspace, 16)
	for i := range got {
		all.Add(1)
		go func() {
			defer all.Done()
			var err error
			if got[i], err = c.take(one("a", "x")); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	for _, w := range got {
		if w != got[0] {
			t.Fatal("the same content was laid down twice")
		}
	}
	for _, other := range []*sdk.Workspace{one("b", "x"), one("a", "y"), one("ax", ""), {Files: []sdk.File{{Path: "a", Data: []byte("x"), Exec: true}}},
		{Files: one("a", "x").Files, Patches: []string{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n"}}, {}} {
		w, err := c.take(other)
		if err != nil {
			t.Fatal(err)
		}
		if w == got[0] {
			t.Errorf("%v counts as the same", other)
		}
	}
}

func TestWorkspacesAreBounded(t *testing.T) {
	c := newWorkspaces(t, 3*2*blockSize) // each takes a directory and a file
	held, err := c.take(one("held", "x"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		w, err := c.take(one("f", string(rune('a'+i))))
		if err != nil {
			t.Fatal(err)
		}
		c.give(w)
	}
	dirs, err := os.ReadDir(c.dir)
	if err != nil || len(dirs) != 4 || c.size != 3*2*blockSize {
		t.Errorf("%d directories of %d bytes are kept, %v", len(dirs), c.size, err)
	}
	if _, err := os.Stat(filepath.Join(held.dir, "held")); err != nil {
		t.Errorf("one in use is gone: %v", err)
	}
	// The last ones are still there, the first one comes back.
	for _, s := range []string{"j", "a", "a", "j"} {
		w, err := c.take(one("f", s))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(w.dir, "f")); err != nil || string(b) != s {
			t.Errorf("%s holds %q, %v", s, b, err)
		}
		c.give(w)
	}
}

func TestMalformedWorkspaceLeavesNothing(t *testing.T) {
	c := newWorkspaces(t, 1<<20)
	for range 2 {
		if _, err := c.take(one("../a", "x")); diag.KindOf(err) != diag.KindData {
			t.Errorf("got %v", err)
		}
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 || len(c.known) > 0 {
		t.Errorf("left: %v, %v, %v", left, c.known, err)
	}
}

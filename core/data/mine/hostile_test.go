package mine

import (
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// What git's objects may hold and no checkout would is left out of a tree by name.
func TestHostileHistory(t *testing.T) {
	dir := t.TempDir()
	commit, all := hostile.History(t, dir)
	r, err := openRepository(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.tree(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	if err := patch.CheckTree(got.Files); err != nil {
		t.Errorf("the files are no tree: %v", err)
	}
	for _, e := range all {
		data := got.At(e.Path)
		switch {
		case e.Taken:
			at := slices.IndexFunc(got.Files, func(f sdk.File) bool { return f.Path == e.Path })
			if at < 0 || string(data) != e.Data || got.Files[at].Exec != e.Exec {
				t.Errorf("%s: file %d, %d bytes", e.Name, at, len(data))
			}
		case e.Name != "twice" && data != nil:
			t.Errorf("%s: %q is taken", e.Name, e.Path)
		case !e.Hidden && !hostile.Noted(got.LeftOut, e.Path):
			t.Errorf("%s: %q is not named among what is left out", e.Name, e.Path)
		}
	}
}

// A tree beyond the bounds is refused, and so is one whose objects are not there.
func TestTreesBeyondBounds(t *testing.T) {
	dir := t.TempDir()
	commit, _ := hostile.History(t, dir)
	r, err := openRepository(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var many strings.Builder
	for i := range source.MaxFiles + 1 {
		many.WriteString("100644 blob 1111111111111111111111111111111111111111       0\tf")
		many.WriteString(strings.Repeat("x", i%200))
		many.WriteByte(byte('0' + i%10))
		many.WriteString(strings.Repeat("y", i/200))
		many.WriteByte(0)
	}
	if _, _, err := listed(many.String(), &source.Tree{}); err == nil || !strings.Contains(err.Error(), "more than 50000 files") {
		t.Error(err)
	}
	if _, err := r.tree(t.Context(), strings.Repeat("1", 40)); diag.KindOf(err) != diag.KindData {
		t.Error(err)
	}
	if _, err := r.tree(t.Context(), commit+"^"); diag.KindOf(err) != diag.KindData {
		t.Error(err)
	}
}

package grade_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// What this package takes, in guests, is what core/patch makes of it where patches are
// laid down; it may refuse more.
func TestHostileDiffs(t *testing.T) {
	taken := 0
	for _, d := range hostile.Diffs() {
		t.Run(d.Name, func(t *testing.T) {
			files, err := grade.ParseDiff(d.Text)
			unread := slices.ContainsFunc(files, func(f grade.FileDiff) bool { return f.Binary })
			if err == nil && d.Never != "" && !unread {
				t.Errorf("taken, but nobody may: %s", d.Never)
			}
			if len(d.Files()) < len(d.Before) {
				return // trees of guests have no links
			}
			got, err := grade.ApplyDiff(d.Files(), d.Text)
			if err != nil {
				if d.Never+d.Here == "" {
					t.Logf("refused: %v", err)
				}
				return
			}
			taken++
			same(t, d.Files(), got, d.Text)
		})
	}
	if taken < 20 {
		t.Errorf("%d diffs are taken", taken)
	}
}

// same holds a tree to what core/patch makes of the one before.
func same(t *testing.T, before, got []sdk.File, diff string) {
	t.Helper()
	want, err := patch.Tree(before, diff)
	if err != nil {
		t.Errorf("taken, but core/patch refuses it: %v", err)
		return
	}
	slices.SortFunc(got, func(a, b sdk.File) int { return strings.Compare(a.Path, b.Path) })
	if !slices.EqualFunc(want, got, func(a, b sdk.File) bool {
		return a.Path == b.Path && a.Exec == b.Exec && string(a.Data) == string(b.Data)
	}) {
		t.Errorf("core/patch makes another tree of it")
	}
}

// FuzzSameTree: of a diff that the host takes, guests make the same tree, or refuse it.
// They see no other ones.
func FuzzSameTree(f *testing.F) {
	for _, d := range hostile.Diffs() {
		if files := d.Files(); len(files) == 1 && len(d.Text) < 1<<10 {
			f.Add(string(files[0].Data), d.Text)
		}
	}
	f.Fuzz(func(t *testing.T, content, diff string) {
		before := []sdk.File{{Path: "g/h", Exec: true}, {Path: "x", Data: []byte(content)}}
		if _, err := patch.Tree(before, diff); err != nil {
			return
		}
		if got, err := grade.ApplyDiff(before, diff); err == nil {
			same(t, before, got, diff)
		}
	})
}

package patch

import (
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Reverse turns a diff round: applied to what diff makes, it gives back what there was.
// Refused are what [Inspect] refuses, copies, which have no way back that does not
// depend on other files, binary patches that hold one direction only, and diffs that
// change a file which they also rename. The error is a diag.Error of KindData.
func Reverse(diff string) (string, error) {
	if _, err := Inspect(diff); err != nil || strings.TrimSpace(diff) == "" {
		return "", err
	}
	if !strings.HasSuffix(diff, "\n") {
		diff += "\n"
	}
	files, _, err := gitdiff.Parse(strings.NewReader(diff))
	if err != nil {
		return "", fail("", "%s", strings.TrimPrefix(err.Error(), "gitdiff: "))
	}
	if err := renamedOnce(files); err != nil {
		return "", err
	}
	plain := !hasGitHeader(diff)
	var out strings.Builder
	// What was done last is undone first.
	for _, f := range slices.Backward(files) {
		if plain {
			f.OldName, f.NewName = dropPrefix(f.OldName), dropPrefix(f.NewName)
		}
		if err := turn(f); err != nil {
			return "", err
		}
		out.WriteString(f.String())
	}
	return out.String(), nil
}

// renamedOnce refuses renames whose files other parts of the diff name too: what is
// renamed is taken from before the diff, and the way back would need it from after.
func renamedOnce(files []*gitdiff.File) error {
	named := map[string]int{}
	for _, f := range files {
		named[f.OldName]++
		if f.NewName != f.OldName {
			named[f.NewName]++
		}
	}
	for _, f := range files {
		for _, p := range []string{f.OldName, f.NewName} {
			if f.IsRename && named[p] > 1 {
				return fail(p, "a diff that renames the file and changes it elsewhere cannot be turned round")
			}
		}
	}
	return nil
}

// turn swaps before and after in a file's part of a diff.
func turn(f *gitdiff.File) error {
	switch {
	case f.IsCopy:
		return fail(f.NewName, "a copy cannot be turned round")
	case f.IsBinary && f.ReverseBinaryFragment == nil:
		return fail(f.NewName, "the binary patch holds one direction only")
	}
	f.OldName, f.NewName = f.NewName, f.OldName
	f.IsNew, f.IsDelete = f.IsDelete, f.IsNew
	f.OldMode, f.NewMode = f.NewMode, f.OldMode
	f.OldOIDPrefix, f.NewOIDPrefix = f.NewOIDPrefix, f.OldOIDPrefix
	f.BinaryFragment, f.ReverseBinaryFragment = f.ReverseBinaryFragment, f.BinaryFragment
	if !f.IsNew && !f.IsDelete && f.OldMode == 0 {
		f.OldMode, f.NewMode = f.NewMode, 0 // it stays the same
	}
	for _, h := range f.TextFragments {
		h.OldPosition, h.NewPosition = h.NewPosition, h.OldPosition
		h.OldLines, h.NewLines = h.NewLines, h.OldLines
		h.LinesAdded, h.LinesDeleted = h.LinesDeleted, h.LinesAdded
		h.Lines = turnLines(h.Lines)
	}
	return nil
}

// turnLines swaps added and deleted lines; in a run of changes, those deleted come first.
func turnLines(lines []gitdiff.Line) []gitdiff.Line {
	out := make([]gitdiff.Line, 0, len(lines))
	for i := 0; i < len(lines); {
		if lines[i].Op == gitdiff.OpContext {
			out = append(out, lines[i])
			i++
			continue
		}
		end := i
		for end < len(lines) && lines[end].Op != gitdiff.OpContext {
			end++
		}
		for _, l := range lines[i:end] {
			if l.Op == gitdiff.OpAdd {
				out = append(out, gitdiff.Line{Op: gitdiff.OpDelete, Line: l.Line})
			}
		}
		for _, l := range lines[i:end] {
			if l.Op == gitdiff.OpDelete {
				out = append(out, gitdiff.Line{Op: gitdiff.OpAdd, Line: l.Line})
			}
		}
		i = end
	}
	return out
}

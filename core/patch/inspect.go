package patch

import (
	"os"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Touched is one file that a diff names.
type Touched struct {
	Path    string // before, or after if the diff makes it
	Renamed string // the new path of a renamed or copied file, else ""
	New     bool
	Deleted bool
}

// Inspect lists the files that a diff names, in its order, and refuses by name what
// [Apply] would refuse on any tree: a path outside the tree, version control, a
// submodule, a binary file without its contents, a header that names two files. The
// error is a diag.Error of KindData. A blank diff names none.
func Inspect(diff string) ([]Touched, error) {
	if strings.TrimSpace(diff) == "" {
		return nil, nil
	}
	files, err := parse(diff)
	if err != nil {
		return nil, err
	}
	out := make([]Touched, len(files))
	for i, f := range files {
		if out[i], err = touched(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func touched(f *gitdiff.File) (Touched, error) {
	t := Touched{Path: f.OldName, New: f.IsNew, Deleted: f.IsDelete}
	switch {
	case f.IsNew:
		t.Path = f.NewName
	case f.IsRename, f.IsCopy:
		t.Renamed = f.NewName
	case !f.IsDelete && f.OldName != f.NewName:
		return t, fail(f.NewName, "the header names %q and %q but no rename", f.OldName, f.NewName)
	}
	for _, p := range []string{t.Path, t.Renamed} {
		if p == "" && t.Path != "" {
			continue
		}
		if strings.HasSuffix(p, "\r") {
			return t, fail(strings.TrimSuffix(p, "\r"), "the diff's own lines end in CRLF; only those of the files it changes may")
		}
		if err := checkPath(p); err != nil {
			return t, err
		}
	}
	for _, m := range []os.FileMode{f.OldMode, f.NewMode} {
		if m == 0o160000 {
			return t, fail(t.Path, "the diff changes a submodule, whose commits it does not hold")
		}
		if _, err := mode(state{}, m, t.Path); err != nil {
			return t, err
		}
	}
	if f.IsBinary && f.BinaryFragment == nil {
		return t, fail(t.Path, "the diff says that a binary file differs, but not how")
	}
	for i, h := range f.TextFragments {
		if h.OldPosition < min(1, h.OldLines) || h.NewPosition < min(1, h.NewLines) {
			return t, fail(t.Path, "hunk %d of %d: a line before the first", i+1, len(f.TextFragments))
		}
		if err := h.Validate(); err != nil {
			return t, fail(t.Path, "hunk %d of %d: %w", i+1, len(f.TextFragments), err)
		}
	}
	return t, nil
}

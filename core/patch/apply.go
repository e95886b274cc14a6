package patch

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// state is a path at one moment of the application.
type state struct {
	data    []byte // of a link: its target
	exec    bool
	link    bool
	missing bool
}

// Apply gives what diff makes of the files that read knows, sorted by path: one
// change a path, however often diff comes back to it. read gives a file's bytes,
// or fs.ErrNotExist; it is asked for the files that diff names and no others.
//
// Understood are git's headers (new, deleted, renamed, copied, modes, symbolic
// links, binary patches with their data) and plain `---`/`+++` headers, whose
// leading a/ and b/ are dropped. As read tells no modes, a changed file is
// executable if and only if diff says so; [Changes] knows better.
//
// Errors are diag.Errors of KindData that name file and hunk; nothing is half
// applied then. A diff without a single header is an error unless it is blank.
func Apply(read func(path string) ([]byte, error), diff string) ([]sdk.Change, error) {
	return apply(func(path string) (state, error) {
		b, err := read(path)
		return state{data: b}, err
	}, diff)
}

func apply(read func(string) (state, error), diff string) ([]sdk.Change, error) {
	if strings.TrimSpace(diff) == "" {
		return nil, nil
	}
	files, err := parse(diff)
	if err != nil {
		return nil, err
	}
	t := &tree{read: read, now: map[string]state{}}
	for _, f := range files {
		if err := t.apply(f); err != nil {
			return nil, err
		}
	}
	return t.changes(), nil
}

// parse reads a diff that is not blank. The names of plain headers are without their
// prefixes.
func parse(diff string) ([]*gitdiff.File, error) {
	if !strings.HasSuffix(diff, "\n") {
		diff += "\n"
	}
	files, _, err := gitdiff.Parse(strings.NewReader(diff))
	if err != nil {
		return nil, fail("", "%s", strings.TrimPrefix(err.Error(), "gitdiff: "))
	}
	if len(files) == 0 {
		return nil, fail("", "the text has no file header of a diff")
	}
	if !hasGitHeader(diff) {
		for _, f := range files {
			f.OldName, f.NewName = dropPrefix(f.OldName), dropPrefix(f.NewName)
		}
	}
	return files, nil
}

func hasGitHeader(diff string) bool {
	const header = "diff --git "
	return strings.HasPrefix(diff, header) || strings.Contains(diff, "\n"+header)
}

func dropPrefix(name string) string {
	if s, ok := strings.CutPrefix(name, "a/"); ok {
		return s
	}
	return strings.TrimPrefix(name, "b/")
}

// tree is the files as far as the diff has been applied.
type tree struct {
	read func(string) (state, error)
	now  map[string]state // what the diff has changed so far
}

func (t *tree) get(path string) (state, error) {
	if s, ok := t.now[path]; ok {
		return s, nil
	}
	s, err := t.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{missing: true}, nil
	}
	return s, diag.Wrap(diag.KindData, op, path, err)
}

func (t *tree) apply(f *gitdiff.File) error {
	from, to := f.OldName, f.NewName
	switch {
	case f.IsNew:
		from = to
	case f.IsDelete:
		to = from
	case !f.IsRename && !f.IsCopy && from != to:
		return fail(to, "the header names %q and %q but no rename", from, to)
	}
	for _, p := range []string{from, to} {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	src, err := t.get(from)
	if err != nil {
		return err
	}
	switch {
	case f.IsNew && !src.missing:
		return fail(to, "the diff creates the file, but it exists")
	case !f.IsNew && src.missing:
		return fail(from, "the file does not exist")
	}
	if from != to {
		dst, err := t.get(to)
		if err != nil {
			return err
		}
		if !dst.missing {
			return fail(to, "the diff renames or copies %s to it, but it exists", from)
		}
	}
	src, err = mode(src, f.OldMode, to)
	if err != nil {
		return err
	}
	out, err := mode(src, f.NewMode, to)
	if err != nil {
		return err
	}
	if out.link != src.link && !f.IsNew {
		return fail(to, "the diff turns a file into a symbolic link, or back, without deleting it first")
	}
	if out.data, err = content(f, to, src.data); err != nil {
		return err
	}
	out.missing = false
	if f.IsDelete {
		// A diff may leave a deleted file's contents out only when there are none.
		if len(out.data) > 0 {
			return fail(to, "the diff deletes the file but not all of its lines")
		}
		t.now[to] = state{missing: true}
		return nil
	}
	if out.link && len(out.data) == 0 {
		return fail(to, "a symbolic link without a target")
	}
	if f.IsRename {
		t.now[from] = state{missing: true}
	}
	t.now[to] = out
	return nil
}

// mode is s with the kind and permission of git's mode m; 0 changes nothing.
func mode(s state, m os.FileMode, path string) (state, error) {
	switch m {
	case 0:
	case 0o100644, 0o100664:
		s.exec, s.link = false, false
	case 0o100755, 0o100775:
		s.exec, s.link = true, false
	case 0o120000:
		s.exec, s.link = false, true
	default:
		return s, fail(path, "mode %o is neither a file's nor a symbolic link's", uint32(m))
	}
	return s, nil
}

// content is what f makes of src.
func content(f *gitdiff.File, path string, src []byte) ([]byte, error) {
	if f.IsBinary {
		if f.BinaryFragment == nil {
			return nil, fail(path, "the diff says that a binary file differs, but not how")
		}
		var out bytes.Buffer
		if err := gitdiff.Apply(&out, bytes.NewReader(src), f); err != nil {
			return nil, fail(path, "binary patch: %w", err)
		}
		return out.Bytes(), nil
	}
	if len(f.TextFragments) == 0 {
		return src, nil
	}
	return hunks(path, src, f.TextFragments)
}

// changes is the difference that was made, sorted.
func (t *tree) changes() []sdk.Change {
	out := make([]sdk.Change, 0, len(t.now))
	for path, s := range t.now {
		c := sdk.Change{Path: path, Exec: s.exec}
		switch {
		case s.missing:
			c = sdk.Change{Path: path, Deleted: true}
		case s.link:
			c = sdk.Change{Path: path, Symlink: string(s.data)}
		default:
			c.Data = s.data
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

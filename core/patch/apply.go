package patch

import (
	"bytes"
	"errors"
	"io/fs"
	"iter"
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
	either  bool // whether it is a link is not known
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
// As git has it, what is renamed or copied is taken from the tree as it was before the
// diff, and every other change is made to what the changes above it have left.
//
// Errors are diag.Errors of KindData that name file and hunk; nothing is half
// applied then. A diff without a single header is an error unless it is blank.
func Apply(read func(path string) ([]byte, error), diff string) ([]sdk.Change, error) {
	return apply(func(path string) (state, error) {
		b, err := read(path)
		return state{data: b, either: true}, err
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
	t := &tree{read: read, was: map[string]state{}, now: map[string]state{}, leaves: map[string]bool{}, made: map[string]bool{}, room: mostBinary}
	for _, f := range files {
		if _, err := touched(f); err != nil {
			return nil, err
		}
		if f.IsDelete || f.IsRename {
			t.leaves[f.OldName] = true
		}
	}
	for _, f := range files {
		if err := t.apply(f); err != nil {
			return nil, err
		}
	}
	return t.changes(), nil
}

// mostBinary is how many bytes the binary patches of one diff may make: a few of them
// can stand for any number.
const mostBinary = 64 << 20

// parse reads a diff that is not blank. The names of plain headers are without their
// prefixes.
func parse(diff string) ([]*gitdiff.File, error) {
	if !strings.HasSuffix(diff, "\n") {
		diff += "\n"
	}
	for line := range headers(diff) {
		if name := unprefixed(line); name != "" {
			return nil, fail(name, "the names have no prefix such as a/ and b/, so that their first folder would be taken for one; make the diff without --no-prefix, and with diff.noprefix off")
		}
	}
	files, _, err := gitdiff.Parse(strings.NewReader(diff))
	if err != nil {
		return nil, fail("", "%s", strings.TrimPrefix(err.Error(), "gitdiff: "))
	}
	if len(files) == 0 {
		return nil, fail("", "the text has no file header of a diff")
	}
	var made int64
	for _, f := range files {
		for _, b := range []*gitdiff.BinaryFragment{f.BinaryFragment, f.ReverseBinaryFragment} {
			if b != nil && b.Size > mostBinary-made {
				return nil, fail(f.NewName, "the binary patches say that they make more than %d MiB", mostBinary>>20)
			}
			if b == f.BinaryFragment && b != nil {
				made += b.Size
			}
		}
	}
	if !hasGitHeader(diff) {
		for _, f := range files {
			f.OldName, f.NewName = dropPrefix(f.OldName), dropPrefix(f.NewName)
		}
	}
	return files, nil
}

const gitHeader = "diff --git "

func hasGitHeader(diff string) bool {
	for range headers(diff) {
		return true
	}
	return false
}

// headers gives the names of git's headers, of each what stands behind "diff --git ".
// No line of a hunk begins so.
func headers(diff string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := diff; ; {
			if strings.HasPrefix(rest, gitHeader) {
				line, _, _ := strings.Cut(rest[len(gitHeader):], "\n")
				if !yield(line) {
					return
				}
			}
			i := strings.Index(rest, "\n"+gitHeader)
			if i < 0 {
				return
			}
			rest = rest[i+1:]
		}
	}
}

// unprefixed gives the name in git's header of a file if it stands there twice and
// without prefixes, which always differ.
func unprefixed(header string) string {
	half := len(header) / 2
	if len(header)%2 == 1 && header[half] == ' ' && header[:half] == header[half+1:] {
		return header[:half]
	}
	return ""
}

func dropPrefix(name string) string {
	if s, ok := strings.CutPrefix(name, "a/"); ok {
		return s
	}
	return strings.TrimPrefix(name, "b/")
}

// tree is the files as far as the diff has been applied.
type tree struct {
	read   func(string) (state, error)
	was    map[string]state // what read gave
	now    map[string]state // what the diff has changed so far
	leaves map[string]bool  // what the diff removes or renames, sooner or later
	made   map[string]bool  // what it has created or renamed to, so far
	room   int64            // bytes that binary patches may still make
}

// before is a path as it was before the diff.
func (t *tree) before(path string) (state, error) {
	if s, ok := t.was[path]; ok {
		return s, nil
	}
	s, err := t.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = state{missing: true}, nil
	}
	if err != nil {
		return s, diag.Wrap(diag.KindData, op, path, err)
	}
	t.was[path] = s
	return s, nil
}

func (t *tree) get(path string) (state, error) {
	if s, ok := t.now[path]; ok {
		return s, nil
	}
	return t.before(path)
}

// source is what a file of the diff is made from.
func (t *tree) source(f *gitdiff.File, from string) (state, error) {
	if f.IsRename || f.IsCopy {
		if s, err := t.before(from); err != nil || !s.missing {
			return s, err
		}
	}
	return t.get(from)
}

// free says whether a file can be made at a path: nothing is there, or it goes.
func (t *tree) free(path string) (bool, error) {
	s, changed := t.now[path]
	if !changed {
		var err error
		if s, err = t.before(path); err != nil {
			return false, err
		}
	}
	return s.missing || !changed && t.leaves[path], nil
}

func (t *tree) apply(f *gitdiff.File) error {
	from, to := f.OldName, f.NewName
	switch {
	case f.IsNew:
		from = to
	case f.IsDelete:
		to = from
	}
	src, err := t.source(f, from)
	if err != nil {
		return err
	}
	switch {
	case f.IsNew:
		free, err := t.free(to)
		if err != nil {
			return err
		}
		if !free {
			return fail(to, "the diff creates the file, but it exists")
		}
		src = state{missing: true}
	case src.missing:
		return fail(from, "the file does not exist")
	case from != to:
		free, err := t.free(to)
		if err != nil {
			return err
		}
		if !free {
			return fail(to, "the diff renames or copies %s to it, but it exists", from)
		}
	}
	if err := t.sameKind(f, from, src); err != nil {
		return err
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
	if out.data, err = t.content(f, to, src.data); err != nil {
		return err
	}
	out.missing, out.either = false, false
	if f.IsDelete {
		// A diff may leave a deleted file's contents out only when there are none.
		if len(out.data) > 0 {
			return fail(to, "the diff deletes the file but not all of its lines")
		}
		t.now[to] = state{missing: true}
		return nil
	}
	if out.link && (len(out.data) == 0 || bytes.IndexByte(out.data, 0) >= 0) {
		return fail(to, "a symbolic link with no target, or one with a NUL")
	}
	if f.IsRename && !(t.made[from] && !t.was[from].missing) {
		t.now[from] = state{missing: true}
	}
	t.made[to] = t.made[to] || from != to || f.IsNew
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

// sameKind refuses a diff of a file where a link is, and of a link where a file is. A
// diff of a link always says so.
func (t *tree) sameKind(f *gitdiff.File, path string, src state) error {
	says := f.OldMode == 0o120000
	switch {
	case f.IsNew || src.either:
	case says && !src.link:
		return fail(path, "the diff changes a symbolic link, but this is a file")
	case src.link && !says && (f.OldMode != 0 || len(f.TextFragments) > 0 || f.IsBinary):
		return fail(path, "the diff changes a file, but this is a symbolic link to %s", clip(string(src.data)))
	}
	return nil
}

// content is what f makes of src.
func (t *tree) content(f *gitdiff.File, path string, src []byte) ([]byte, error) {
	if f.IsBinary {
		return t.binary(f, path, src)
	}
	if len(f.TextFragments) == 0 {
		return src, nil
	}
	return hunks(path, src, f.TextFragments)
}

// binary applies a binary patch, which is of one file alone: the one whose object is
// named, if one is.
func (t *tree) binary(f *gitdiff.File, path string, src []byte) ([]byte, error) {
	if !f.IsNew && !isObject(f.OldOIDPrefix, src) {
		return nil, fail(path, "binary patch: it is of another content of the file, object %s", f.OldOIDPrefix)
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(src), f, gitdiff.WithMaxBinaryFragmentBytes(t.room)); err != nil {
		return nil, fail(path, "binary patch: %w", err)
	}
	if t.room -= int64(out.Len()); t.room < 0 {
		return nil, fail(path, "the binary patches make more than %d MiB", mostBinary>>20)
	}
	if !f.IsDelete && !isObject(f.NewOIDPrefix, out.Bytes()) {
		return nil, fail(path, "binary patch: it makes something else than the object %s that it names", f.NewOIDPrefix)
	}
	return out.Bytes(), nil
}

// isObject says whether git's name of b begins so.
func isObject(prefix string, b []byte) bool { return strings.HasPrefix(object(b), prefix) }

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

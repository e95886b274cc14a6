// Package patch applies unified diffs to trees that live in memory and renders
// changes as unified diffs. It runs no command and touches no file system: what
// it needs to read comes through a function or as a list of files.
//
// Application is strict: every line that a hunk names must stand where the hunk
// says. A patch that fits only elsewhere belongs to another tree, and its verdict
// would be about something that nobody wrote.
package patch

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

const op = "apply patch"

// fail is the error of every refusal of this package.
func fail(path, format string, args ...any) error {
	return diag.Errorf(diag.KindData, op, path, format, args...)
}

// checkPath refuses what must not be written through a patch: paths that are
// absolute, unclean or leave the tree, and everything of version control.
func checkPath(path string) error {
	if path == "." || !fs.ValidPath(path) || strings.ContainsRune(path, 0) {
		return fail(path, "the path is not a clean path relative to the workspace")
	}
	if slices.Contains(strings.Split(path, "/"), ".git") {
		return fail(path, "a patch may not touch .git")
	}
	return nil
}

// CheckTree refuses a list of files that cannot be laid down as one tree: a bad
// path, a path given twice, or a file that is also a directory of another.
func CheckTree(files []sdk.File) error {
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if seen[f.Path] {
			return fail(f.Path, "the file is given twice")
		}
		seen[f.Path] = true
	}
	for _, f := range files {
		for i := range len(f.Path) {
			if f.Path[i] == '/' && seen[f.Path[:i]] {
				return fail(f.Path, "%s is a file, not a directory", f.Path[:i])
			}
		}
	}
	return nil
}

// Tree gives files as they are after patches were applied in order, sorted by
// path. Contents that no patch touched are shared with files. A symbolic link in
// a patch is refused, as a File cannot be one. Errors are diag.Errors of KindData.
func Tree(files []sdk.File, patches ...string) ([]sdk.File, error) {
	if err := CheckTree(files); err != nil {
		return nil, err
	}
	at := make(map[string]sdk.File, len(files))
	for _, f := range files {
		at[f.Path] = f
	}
	for _, p := range patches {
		changes, err := apply(reader(at), p)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			switch {
			case c.Symlink != "":
				return nil, fail(c.Path, "a workspace's patch may not make a symbolic link")
			case c.Deleted:
				delete(at, c.Path)
			default:
				at[c.Path] = sdk.File{Path: c.Path, Data: c.Data, Exec: c.Exec}
			}
		}
	}
	out := make([]sdk.File, 0, len(at))
	for _, f := range at {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b sdk.File) int { return strings.Compare(a.Path, b.Path) })
	return out, CheckTree(out)
}

// Changes is Apply on a list of files, whose executable bits it keeps.
func Changes(files []sdk.File, diff string) ([]sdk.Change, error) {
	at := make(map[string]sdk.File, len(files))
	for _, f := range files {
		at[f.Path] = f
	}
	return apply(reader(at), diff)
}

// Over gives what differs after patches were applied, in order, to the tree that read
// knows with files laid over it: one change a path, sorted; files are among them. read
// gives what is at a path, or fs.ErrNotExist, and is asked for what patches name and no
// more. Errors of what files and patches say are diag.Errors of KindData; those of read
// have the kind that they have.
func Over(read func(path string) (sdk.Change, error), files []sdk.File, patches ...string) ([]sdk.Change, error) {
	if err := CheckTree(files); err != nil {
		return nil, err
	}
	now := make(map[string]sdk.Change, len(files))
	for _, f := range files {
		now[f.Path] = sdk.Change{Path: f.Path, Data: f.Data, Exec: f.Exec}
	}
	for _, p := range patches {
		changes, err := apply(func(path string) (state, error) {
			c, known := now[path]
			if !known {
				var err error
				if c, err = read(path); err != nil {
					return state{}, err
				}
			}
			switch {
			case c.Deleted:
				return state{}, fs.ErrNotExist
			case c.Symlink != "":
				return state{data: []byte(c.Symlink), link: true}, nil
			}
			return state{data: c.Data, exec: c.Exec}, nil
		}, p)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			now[c.Path] = c
		}
	}
	out := make([]sdk.Change, 0, len(now))
	var left []sdk.File
	for _, c := range now {
		out = append(out, c)
		if !c.Deleted {
			left = append(left, sdk.File{Path: c.Path})
		}
	}
	slices.SortFunc(out, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	return out, CheckTree(left)
}

func reader(at map[string]sdk.File) func(string) (state, error) {
	return func(path string) (state, error) {
		f, ok := at[path]
		if !ok {
			return state{}, fs.ErrNotExist
		}
		return state{data: f.Data, exec: f.Exec}, nil
	}
}

// Package source reads the trees from which records are made: a folder, a Python
// source archive (.tar.gz, .zip) or wheel, a Go module's zip. A tree is read into
// memory whole, and nothing of it is run or written to disk.
//
// An archive is somebody else's: what leaves the tree, what is no plain file and what
// is too large is left out by name, and an archive that is nothing but a trap, with
// too many or too large contents, is refused.
package source

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Bounds of a tree. Larger files are left out; a larger tree is refused.
const (
	MaxFile  = 4 << 20
	MaxTree  = 128 << 20
	MaxFiles = 50_000
)

const op = "read source"

// Tree is the files of a source, sorted by path.
type Tree struct {
	Name    string // of the package or the module, with its version where the source tells it
	Repo    string // where it is developed, "host/owner/name", or the module's path; Name if nothing says
	Files   []sdk.File
	LeftOut []string // "path: reason", in the order met
}

// Digest names the tree's content: the same files give the same text.
func (t *Tree) Digest() string {
	h := sha256.New()
	for _, f := range t.Files {
		for _, b := range [][]byte{[]byte(f.Path), f.Data} {
			var n [8]byte
			binary.BigEndian.PutUint64(n[:], uint64(len(b)))
			h.Write(n[:])
			h.Write(b)
		}
		if f.Exec {
			h.Write([]byte{1})
		} else {
			h.Write([]byte{0})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Open reads the source at a path. Errors are diag.Errors of KindData.
func Open(name string) (*Tree, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, name, err)
	}
	t := &taker{name: name, seen: map[string]bool{}}
	switch {
	case info.IsDir():
		err = t.folder(name)
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		err = t.tarball(name)
	case strings.HasSuffix(name, ".zip"), strings.HasSuffix(name, ".whl"):
		err = t.zip(name)
	default:
		return nil, diag.Errorf(diag.KindData, op, name, "it is neither a folder nor a .tar.gz, .zip or .whl")
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, name, err)
	}
	if len(t.files) == 0 {
		return nil, diag.Errorf(diag.KindData, op, name, "it holds no file")
	}
	out := t.tree(!info.IsDir())
	out.Identify(name)
	return out, nil
}

// taker collects files within the bounds.
type taker struct {
	name  string
	files []sdk.File
	seen  map[string]bool
	bytes int64
	out   []string
}

func (t *taker) leave(p, why string) { t.out = append(t.out, p+": "+why) }

// wants says whether a file of this path and size is to be read.
func (t *taker) wants(p string, size int64) (bool, error) {
	switch {
	case p == "." || !fs.ValidPath(p) || strings.ContainsRune(p, 0):
		t.leave(p, "not a clean path within the tree")
		return false, nil
	case Hidden(p):
		return false, nil
	case t.seen[p]:
		t.leave(p, "given twice")
		return false, nil
	case size > MaxFile:
		t.leave(p, "larger than 4 MiB")
		return false, nil
	}
	if t.bytes += size; t.bytes > MaxTree {
		return false, diag.Errorf(diag.KindData, op, t.name, "more than %d MiB of files", MaxTree>>20)
	}
	if len(t.files) >= MaxFiles {
		return false, diag.Errorf(diag.KindData, op, t.name, "more than %d files", MaxFiles)
	}
	t.seen[p] = true
	return true, nil
}

func (t *taker) add(p string, data []byte, exec bool) {
	t.files = append(t.files, sdk.File{Path: p, Data: data, Exec: exec})
}

// Hidden says whether a path is no part of a tree's sources: version control and caches.
func Hidden(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case ".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".tox", ".venv", "node_modules":
			return true
		}
		if strings.HasSuffix(part, ".egg-info") {
			return true
		}
	}
	return strings.HasSuffix(p, ".pyc")
}

// tree sorts the files and drops what collides: a file where another has a folder.
// Archives hold their files in one folder of their own, which is cut off.
func (t *taker) tree(archive bool) *Tree {
	if archive {
		t.cut()
	}
	slices.SortFunc(t.files, func(a, b sdk.File) int { return cmp.Compare(a.Path, b.Path) })
	folders := map[string]bool{}
	for _, f := range t.files {
		for d := path.Dir(f.Path); d != "."; d = path.Dir(d) {
			folders[d] = true
		}
	}
	t.files = slices.DeleteFunc(t.files, func(f sdk.File) bool {
		if folders[f.Path] {
			t.leave(f.Path, "it is a file and a folder")
		}
		return folders[f.Path]
	})
	return &Tree{Files: t.files, LeftOut: t.out}
}

// cut takes off the folder that all files share: "idna-3.10/" of a source archive, the
// module's path and version of a Go module's zip.
func (t *taker) cut() {
	prefix := ""
	if i := strings.Index(t.files[0].Path, "@v"); i >= 0 { // of a Go module: the path up to its version
		if j := strings.IndexByte(t.files[0].Path[i:], '/'); j >= 0 {
			prefix = t.files[0].Path[:i+j+1]
		}
	} else if i := strings.IndexByte(t.files[0].Path, '/'); i >= 0 {
		prefix = t.files[0].Path[:i+1]
	}
	if prefix == "" || strings.HasSuffix(t.name, ".whl") {
		return
	}
	for _, f := range t.files {
		if !strings.HasPrefix(f.Path, prefix) {
			return
		}
	}
	for i := range t.files {
		t.files[i].Path = t.files[i].Path[len(prefix):]
	}
}

// At gives a file's content; nil if there is none.
func (t *Tree) At(p string) []byte {
	if i, ok := slices.BinarySearchFunc(t.Files, p, func(f sdk.File, p string) int { return cmp.Compare(f.Path, p) }); ok {
		return t.Files[i].Data
	}
	return nil
}

// major is the end of a module's path from its second major version on.
var major = regexp.MustCompile(`^v[0-9]+$`)

// Identify finds the tree's name and home in what it says of itself, and in the name
// under which it was found.
func (t *Tree) Identify(name string) {
	abs, err := filepath.Abs(name)
	if err != nil {
		abs = name
	}
	base := filepath.Base(abs)
	for _, suffix := range []string{".tar.gz", ".tgz", ".zip", ".whl"} {
		base = strings.TrimSuffix(base, suffix)
	}
	t.Name = base
	for line := range strings.Lines(string(t.At("go.mod"))) {
		if m, ok := strings.CutPrefix(line, "module "); ok {
			t.Repo = strings.Trim(strings.TrimSpace(m), `"`)
			t.Name = path.Base(t.Repo)
			if major.MatchString(t.Name) && path.Dir(t.Repo) != "." {
				t.Name = path.Base(path.Dir(t.Repo)) + "-" + t.Name
			}
			if strings.HasPrefix(base, "v") && base != t.Name {
				t.Name += "-" + base
			}
			return
		}
	}
	t.Repo = base
	info := t.At("PKG-INFO")
	for line := range bytes.Lines(info) {
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), ": ")
		if key != "Home-page" && key != "Project-URL" {
			continue
		}
		if home := forge(value); home != "" {
			t.Repo = home
			return
		}
	}
}

// forge finds "github.com/owner/name" and the like in a text.
func forge(text string) string {
	for _, host := range []string{"github.com/", "gitlab.com/", "codeberg.org/", "bitbucket.org/"} {
		_, rest, ok := strings.Cut(text, host)
		if !ok {
			continue
		}
		parts := strings.Split(strings.TrimRight(rest, "/ "), "/")
		if len(parts) >= 2 && parts[0] != "" && parts[1] != "" && parts[0] != "sponsors" {
			return host + parts[0] + "/" + strings.TrimSuffix(parts[1], ".git")
		}
	}
	return ""
}

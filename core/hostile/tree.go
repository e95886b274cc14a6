package hostile

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/valence-rl/valence/sdk"
)

// Lay writes files and links to a folder of the host.
func Lay(dir string, tree []sdk.Change) error {
	for _, c := range tree {
		name := filepath.Join(dir, filepath.FromSlash(c.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if c.Symlink != "" {
			if err := os.Symlink(c.Symlink, name); err != nil {
				return err
			}
			continue
		}
		mode := os.FileMode(0o644)
		if c.Exec {
			mode = 0o755
		}
		if err := os.WriteFile(name, c.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

// Differences gives what differs in a folder of the host from what was laid there.
func Differences(t testing.TB, dir string, before []sdk.Change) []sdk.Change {
	t.Helper()
	now := map[string]sdk.Change{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		c := sdk.Change{Path: filepath.ToSlash(rel)}
		if e.Type()&fs.ModeSymlink != 0 {
			c.Symlink, err = os.Readlink(p)
		} else if data, e2 := os.ReadFile(p); e2 != nil {
			err = e2
		} else {
			if len(data) > 0 {
				c.Data = data
			}
			var info fs.FileInfo
			info, err = e.Info()
			c.Exec = err == nil && info.Mode()&0o100 != 0
		}
		now[c.Path] = c
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []sdk.Change
	for _, b := range before {
		n, still := now[b.Path]
		delete(now, b.Path)
		switch {
		case !still:
			out = append(out, sdk.Change{Path: b.Path, Deleted: true})
		case !alike(b, n):
			out = append(out, n)
		}
	}
	for _, n := range now {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Entry is something that an archive, a folder, a history or an agent's workspace may
// hold beside ordinary files.
type Entry struct {
	Name string // of the case
	Path string
	Kind byte // one of the constants below; 0: a file
	Data string
	Exec bool
	To   string // of links
	// Taken says that it is a part of the tree, and Hidden that it is left out without a
	// word. Any other entry is left out by name.
	Taken, Hidden bool
}

// Kinds of entries that are no files.
const (
	SymbolicLink = 'l'
	HardLink     = 'h'
	Pipe         = 'p'
	Device       = 'd'
)

// Entries gives the corpus of trees. In each place those that cannot be made there are
// missing: a folder of Linux has no name with a NUL, and git keeps no pipe.
func Entries() []Entry {
	huge := strings.Repeat("x", 5<<20)
	return []Entry{
		{Name: "a file", Path: "pkg/a.py", Data: "x = 1\n", Taken: true},
		{Name: "an executable", Path: "run.sh", Data: "#!/bin/sh\n", Exec: true, Taken: true},
		{Name: "an empty file", Path: "pkg/__init__.py", Taken: true},
		{Name: "no line break at the end", Path: "end", Data: "x", Taken: true},
		{Name: "CRLF", Path: "crlf.txt", Data: "a\r\nb\r\n", Taken: true},
		{Name: "contents that are no UTF-8", Path: "latin1.txt", Data: "caf\xe9\n", Taken: true},
		{Name: "NUL in contents", Path: "binary.dat", Data: "a\x00b", Taken: true},
		{Name: "blanks and quotes in a name", Path: "a \"b\" 'c'\\d.txt", Data: "q", Taken: true},
		{Name: "a line break in a name", Path: "line\nbreak", Data: "q", Taken: true},
		{Name: "a name of other letters", Path: "caf\u00e9/\u6587.txt", Data: "q", Taken: true},
		{Name: "a name of option form", Path: "-rf", Data: "q", Taken: true},
		{Name: "the same in capitals", Path: "PKG/A.py", Data: "x = 2\n", Taken: true},
		{Name: "the list of submodules", Path: ".gitmodules", Data: "[submodule \"x\"]\n", Taken: true},
		{Name: "backslashes", Path: `..\..\windows`, Data: "q", Taken: true},
		{Name: "many lines", Path: "lines", Data: strings.Repeat("l\n", 100_000), Taken: true},
		{Name: "a name that is no UTF-8", Path: "caf\xe9.py", Data: "q"},
		{Name: "a huge file", Path: "huge", Data: huge},
		{Name: "a link within", Path: "link", Kind: SymbolicLink, To: "pkg/a.py"},
		{Name: "a link to the outside", Path: "passwd", Kind: SymbolicLink, To: "/etc/passwd"},
		{Name: "a link upwards", Path: "up", Kind: SymbolicLink, To: "../../../.."},
		{Name: "a link to itself", Path: "loop", Kind: SymbolicLink, To: "loop"},
		{Name: "a link to nowhere", Path: "nowhere", Kind: SymbolicLink, To: "not/there"},
		{Name: "a pipe", Path: "pipe", Kind: Pipe},
		{Name: "a hard link", Path: "hard", Kind: HardLink, To: "pkg/a.py"},
		{Name: "a hard link to the outside", Path: "harder", Kind: HardLink, To: "/etc/passwd"},
		{Name: "a device", Path: "zero", Kind: Device},
		{Name: "above the tree", Path: "../above", Data: "q"},
		{Name: "far above the tree", Path: "pkg/../../../far", Data: "q"},
		{Name: "absolute", Path: "/absolute", Data: "q"},
		{Name: "a dot on the way", Path: "pkg/./dot.py", Data: "q"},
		{Name: "slashes on the way", Path: "pkg//slash.py", Data: "q"},
		{Name: "twice", Path: "pkg/a.py", Data: "x = 3\n"},
		{Name: "a file where a folder is", Path: "both", Data: "q"},
		{Name: "a folder where a file is", Path: "both/below", Data: "q", Taken: true},
		{Name: "version control", Path: ".git/config", Data: "[core]\n", Hidden: true},
		{Name: "version control further down", Path: "lib/.git/hooks/post-checkout", Data: "#!/bin/sh\n", Exec: true, Hidden: true},
		{Name: "version control as a file", Path: "sub/.git", Data: "gitdir: /\n", Hidden: true},
		{Name: "compiled", Path: "pkg/__pycache__/a.pyc", Data: "q", Hidden: true},
	}
}

// Noted says whether one of the notes by which things are left out is about a path.
func Noted(notes []string, path string) bool {
	return slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, path+": ") })
}

// onDisk says whether a folder of Linux can hold the entry beside the others.
func (e *Entry) onDisk() bool {
	switch {
	case e.Kind == Device, e.Name == "twice", e.Name == "a file where a folder is":
		return false
	case e.Kind == HardLink:
		return !strings.HasPrefix(e.To, "/")
	}
	return filepath.IsLocal(e.Path) && filepath.Clean(e.Path) == e.Path
}

// Folder lays the corpus down in a folder, and gives what is there.
func Folder(t testing.TB, dir string) []Entry {
	t.Helper()
	var out []Entry
	for _, e := range Entries() {
		if !e.onDisk() {
			continue
		}
		name := filepath.Join(dir, e.Path)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		switch {
		case err != nil:
		case e.Kind == SymbolicLink:
			err = os.Symlink(e.To, name)
		case e.Kind == Pipe:
			err = syscall.Mkfifo(name, 0o644)
		case e.Kind == HardLink:
			// It is a file like any other where there is nothing to tell it by.
			e.Data, e.Taken = "x = 1\n", true
			err = os.Link(filepath.Join(dir, e.To), name)
		case e.Exec:
			err = os.WriteFile(name, []byte(e.Data), 0o755)
		default:
			err = os.WriteFile(name, []byte(e.Data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// Tar gives the corpus as a .tar.gz, below a folder.
func Tar(t testing.TB, below string) ([]byte, []Entry) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	var out []Entry
	for _, e := range Entries() {
		h := &tar.Header{Name: below + e.Path, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(e.Data)), Linkname: e.To, Format: tar.FormatPAX}
		if strings.HasPrefix(e.Path, "/") {
			h.Name = e.Path
		}
		if e.Exec {
			h.Mode = 0o755
		}
		switch e.Kind {
		case SymbolicLink:
			h.Typeflag = tar.TypeSymlink
		case HardLink:
			h.Typeflag = tar.TypeLink
		case Pipe:
			h.Typeflag = tar.TypeFifo
		case Device:
			h.Typeflag, h.Devmajor, h.Devminor = tar.TypeChar, 1, 5
		}
		e.Path = h.Name
		if err := w.WriteHeader(h); err != nil {
			h.Format = tar.FormatGNU // which has no rule for names
			if err := w.WriteHeader(h); err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
		}
		if _, err := w.Write([]byte(e.Data)); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), out
}

// Zip gives the corpus as a .zip, below a folder. A zip has no hard links.
func Zip(t testing.TB, below string) ([]byte, []Entry) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	var out []Entry
	for _, e := range Entries() {
		if e.Kind == HardLink {
			continue
		}
		h := &zip.FileHeader{Name: below + e.Path, Method: zip.Deflate}
		if strings.HasPrefix(e.Path, "/") {
			h.Name = e.Path
		}
		e.Path = h.Name
		mode, data := fs.FileMode(0o644), e.Data
		switch {
		case e.Kind == SymbolicLink:
			mode, data = fs.ModeSymlink|0o777, e.To
		case e.Kind == Pipe:
			mode |= fs.ModeNamedPipe
		case e.Kind == Device:
			mode |= fs.ModeDevice | fs.ModeCharDevice
		case e.Exec:
			mode = 0o755
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), out
}

// History makes a repository whose head holds the corpus, as far as git's objects can:
// trees are written object by object, so that nothing of git's own checks is in the way.
// It gives the commit.
func History(t testing.TB, dir string) (commit string, entries []Entry) {
	t.Helper()
	git := func(stdin []byte, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = bytes.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git(nil, "init", "-q", "-b", "main")
	object := func(kind string, data []byte) string {
		return git(data, "hash-object", "-w", "--literally", "-t", kind, "--stdin")
	}
	root := &folder{}
	for _, e := range Entries() {
		mode, data := "100644", e.Data
		switch {
		case e.Kind == SymbolicLink:
			mode, data = "120000", e.To
		case e.Kind != 0, strings.HasPrefix(e.Path, "/"), strings.Contains(e.Path, "//"):
			continue
		case e.Exec:
			mode = "100755"
		}
		root.put(strings.Split(e.Path, "/"), mode, object("blob", []byte(data)))
		entries = append(entries, e)
	}
	root.put([]string{"module"}, "160000", strings.Repeat("1", 40))
	entries = append(entries, Entry{Name: "a submodule", Path: "module"})
	commit = git(nil, "commit-tree", "-m", "begin", root.write(func(data []byte) string { return object("tree", data) }))
	git(nil, "update-ref", "refs/heads/main", commit)
	return commit, entries
}

// folder is a tree of git, as it is made.
type folder struct {
	names  []string
	modes  []string
	blobs  []string
	below  map[string]*folder
	places []string // of folders, in order
}

func (f *folder) put(parts []string, mode, blob string) {
	if len(parts) == 1 {
		f.names, f.modes, f.blobs = append(f.names, parts[0]), append(f.modes, mode), append(f.blobs, blob)
		return
	}
	sub := f.below[parts[0]]
	if sub == nil {
		if f.below == nil {
			f.below = map[string]*folder{}
		}
		sub = &folder{}
		f.below[parts[0]] = sub
		f.places = append(f.places, parts[0])
	}
	sub.put(parts[1:], mode, blob)
}

func (f *folder) write(store func([]byte) string) string {
	var lines []string
	entry := func(mode, name, id string) {
		raw, _ := hex.DecodeString(id)
		lines = append(lines, mode+" "+name+"\x00"+string(raw))
	}
	for i, n := range f.names {
		entry(f.modes[i], n, f.blobs[i])
	}
	for _, n := range f.places {
		entry("40000", n, f.below[n].write(store))
	}
	return store([]byte(strings.Join(lines, "")))
}

// Script gives shell commands that leave the corpus in the working directory, as an agent
// could, and the changes that are to be seen then, sorted by path. What is long or
// hidden is left out.
func Script() (script string, want []sdk.Change) {
	var b strings.Builder
	for _, e := range Entries() {
		if !e.onDisk() || len(e.Data) > 1<<10 || e.Hidden {
			continue
		}
		name := quoted("./" + e.Path)
		fmt.Fprintf(&b, "mkdir -p -- %s\n", quoted("./"+filepath.Dir(e.Path)))
		c := sdk.Change{Path: e.Path, Exec: e.Exec}
		switch e.Kind {
		case SymbolicLink:
			c.Symlink = e.To
			fmt.Fprintf(&b, "ln -s -- %s %s\n", quoted(e.To), name)
		case Pipe:
			fmt.Fprintf(&b, "mkfifo -- %s\n", name)
			continue // no change can say so
		case HardLink:
			c.Data = []byte("x = 1\n")
			// Where there are no hard links, a copy does.
			fmt.Fprintf(&b, "ln -- %[1]s %[2]s 2>/dev/null || cp -- %[1]s %[2]s\n", quoted("./"+e.To), name)
		default:
			if e.Data != "" {
				c.Data = []byte(e.Data)
			}
			fmt.Fprintf(&b, "printf '%s' > %s\n", octal(e.Data), name)
			if e.Exec {
				fmt.Fprintf(&b, "chmod 755 -- %s\n", name)
			}
		}
		want = append(want, c)
	}
	slices.SortFunc(want, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	return b.String(), want
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func octal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\%03o`, s[i])
	}
	return b.String()
}

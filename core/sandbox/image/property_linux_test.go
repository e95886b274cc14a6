package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// world is a file system that layers are drawn for: what a path is, and which paths are
// one file.
type world struct {
	kind map[string]byte
	file map[string]string // the identity of what is no folder
	next int
}

func (w *world) remove(p string) {
	for q := range w.kind {
		if within(q, p) {
			delete(w.kind, q)
			delete(w.file, q)
		}
	}
}

// put makes p, with what is implied above it.
func (w *world) put(p string, kind byte, identity string) {
	if kind != tar.TypeDir || w.kind[p] != tar.TypeDir {
		w.remove(p)
	}
	w.kind[p] = kind
	if kind != tar.TypeDir {
		if identity == "" {
			w.next++
			identity = fmt.Sprint("file ", w.next)
		}
		w.file[p] = identity
	}
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		w.kind[d] = tar.TypeDir
	}
}

// open tells whether p can be put without going through what is no folder.
func (w *world) open(p string) bool {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if k, is := w.kind[d]; is && k != tar.TypeDir {
			return false
		}
	}
	return true
}

func (w *world) paths(keep func(string) bool) []string {
	all := slices.Sorted(maps.Keys(w.kind))
	return slices.DeleteFunc(all, func(p string) bool { return !keep(p) })
}

var parts = []string{"a", "b", "c", "etc", "ü x", strings.Repeat("long", 40)}

func drawPath(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 3).Draw(t, "path"), "/")
}

// drawLayer gives the entries of a layer over w, which becomes what it is with it.
func drawLayer(t *rapid.T, w *world) []entry {
	var hidden, entries []entry
	var marked []string // folders with whiteouts
	for range rapid.IntRange(0, 3).Draw(t, "whiteouts") {
		folders := append([]string{"."}, w.paths(func(p string) bool { return w.kind[p] == tar.TypeDir })...)
		in := rapid.SampledFrom(folders).Draw(t, "in")
		name := opaqueName
		if rapid.IntRange(0, 3).Draw(t, "opaque") > 0 {
			base := rapid.SampledFrom(parts).Draw(t, "hidden")
			if len(base) > 100 {
				continue // a name that is longer with the prefix
			}
			name = whiteoutPrefix + base
			if slices.ContainsFunc(marked, func(m string) bool { return within(m, path.Join(in, base)) }) {
				continue // a folder with whiteouts is there
			}
			w.remove(path.Join(in, base))
		} else {
			if slices.ContainsFunc(marked, func(m string) bool { return m != in && within(m, in) }) {
				continue
			}
			for _, p := range w.paths(func(p string) bool { return path.Dir(p) == in }) {
				w.remove(p)
			}
		}
		hidden = append(hidden, file(path.Join(in, name), ""))
		marked = append(marked, in)
	}
	here := map[string]byte{} // what this layer has
	for range rapid.IntRange(0, 12).Draw(t, "entries") {
		p := drawPath(t)
		kind := rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo}).Draw(t, "kind")
		if !w.open(p) || here[p] == tar.TypeDir {
			continue // the other unpacker would follow a link, or fail
		}
		if kind != tar.TypeDir && slices.ContainsFunc(marked, func(in string) bool { return within(in, p) }) {
			continue // a folder with whiteouts is a folder
		}
		h := tar.Header{
			Name: p, Typeflag: kind, Format: tar.FormatPAX,
			Mode:    rapid.SampledFrom([]int64{0o644, 0o755, 0o600, 0o4755, 0o2755, 0o1777, 0, 0o500}).Draw(t, "mode"),
			Uid:     rapid.SampledFrom([]int{0, 0, 1000, 65535}).Draw(t, "uid"),
			Gid:     rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "gid"),
			ModTime: time.Unix(rapid.Int64Range(1, 2e9).Draw(t, "time"), rapid.Int64Range(0, 999999999).Draw(t, "nanoseconds")),
		}
		if os.Geteuid() != 0 {
			h.Mode |= 0o700 // or the other unpacker's files could not be read
		}
		if kind == tar.TypeDir {
			h.Mode &^= 0o2000 // folders made in one by the other unpacker inherit its group
		}
		identity, text := "", ""
		switch kind {
		case tar.TypeReg:
			text = rapid.StringN(0, 50, 200).Draw(t, "text")
			if rapid.IntRange(0, 3).Draw(t, "attributes") == 0 {
				h.PAXRecords = map[string]string{"SCHILY.xattr.user.note": "of " + p}
			}
		case tar.TypeSymlink:
			h.Linkname = rapid.SampledFrom([]string{"a", "../b", "/etc", "/../../x", "nowhere", "."}).Draw(t, "target")
		case tar.TypeLink:
			targets := w.paths(func(q string) bool { return w.kind[q] != tar.TypeDir && !within(q, p) })
			if len(targets) == 0 {
				continue
			}
			h.Linkname = rapid.SampledFrom(targets).Draw(t, "target")
			identity = w.file[h.Linkname]
			if _, is := here[h.Linkname]; !is {
				identity = strings.TrimSuffix(identity, ", copied") + ", copied"
			}
			kind = w.kind[h.Linkname]
		case tar.TypeDir:
			if !strings.HasSuffix(h.Name, "/") && rapid.Bool().Draw(t, "slash") {
				h.Name += "/"
			}
		}
		if rapid.Bool().Draw(t, "dot") && kind != tar.TypeLink {
			h.Name = "./" + h.Name
		}
		w.put(p, kind, identity)
		here[p] = w.kind[p]
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			here[d] = tar.TypeDir
		}
		entries = append(entries, entry{h, text})
	}
	if rapid.Bool().Draw(t, "whiteouts first") {
		return append(hidden, entries...)
	}
	return append(entries, hidden...)
}

// Whatever the layers, the overlay of the folders is what the system's tar makes of them
// one after the other.
func TestLayersBecomeWhatTarMakes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("owners are not compared: only root can give files away")
	}
	can := map[bool]error{false: mountable(t, Form{}), true: mountable(t, rangeForm)}
	for shifted, err := range can {
		if err != nil {
			t.Logf("folders are read without a mount, shifted %v: %v", shifted, err)
		}
	}
	top := t.TempDir()
	n := 0
	trims := 0
	rapid.Check(t, func(rt *rapid.T) {
		form := Form{}
		if os.Geteuid() == 0 && rapid.Bool().Draw(rt, "shifted") {
			form = rangeForm
		}
		m := marksFor(form)
		m.whiteouts = can[form.shifted()] == nil && rapid.Bool().Draw(rt, "whiteouts by attribute")
		w := &world{kind: map[string]byte{}, file: map[string]string{}}
		var archives [][]byte
		for range rapid.IntRange(1, 5).Draw(rt, "layers") {
			archives = append(archives, archive(t, drawLayer(rt, w)...))
		}
		n++
		dir := filepath.Join(top, fmt.Sprint(n))
		reference := filepath.Join(dir, "reference")
		if err := os.MkdirAll(reference, 0o755); err != nil {
			rt.Fatal(err)
		}
		defer removeAll(t, dir)
		if err := flattened(t.Context(), reference, archives...); err != nil {
			rt.Fatalf("%s%v", contents(t, archives), err)
		}
		want, err := list(reference)
		if err != nil {
			rt.Fatal(err)
		}
		layers, _, err := unpackAll(t.Context(), dir, form, m, Limits{}, archives...)
		if err != nil {
			rt.Fatal(err)
		}
		if filepath.Base(layers[0]) == "trim" {
			trims++
		}
		var got []thing
		if can[form.shifted()] == nil && rapid.IntRange(0, 3).Draw(rt, "unmounted") > 0 {
			got, err = mounted(t, layers, form)
		} else {
			got, err = readThrough(layers, form)
		}
		if err != nil {
			rt.Fatalf("%s%v", contents(t, archives), err)
		}
		first := map[string]string{}
		for i := range want {
			e := &want[i]
			p := string(e.Path)
			isDir := e.Mode&unix.S_IFMT == unix.S_IFDIR
			if !form.shifted() {
				if e.UID, e.GID = 0, 0; e.Mode&unix.S_IFMT != unix.S_IFLNK {
					e.Mode = e.Mode&unix.S_IFMT | ownMode(e.Mode&0o7777, isDir)
				}
			}
			if isDir {
				continue
			}
			if _, is := first[w.file[p]]; !is {
				first[w.file[p]] = p
			}
			e.Twins = first[w.file[p]]
		}
		for _, all := range [][]thing{got, want} {
			for i := range all {
				if all[i].Mode&unix.S_IFMT == unix.S_IFDIR {
					all[i].Time = 0 // the other unpacker changes it with every file
				}
				if os.Geteuid() != 0 {
					all[i].UID, all[i].GID = 0, 0
				}
			}
		}
		if g, w := render(got), render(want); g != w {
			rt.Fatalf("%sseen\n%swant\n%s", contents(t, archives), g, w)
		}
	})
	t.Logf("%d stacks, %d of them with a trim", n, trims)
}

// removeAll also removes folders that their owner cannot search.
func removeAll(t testing.TB, dir string) {
	filepath.WalkDir(dir, func(p string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// readThrough lists a stack without a mount.
func readThrough(layers []string, form Form) ([]thing, error) {
	notes := make([]*note, len(layers))
	for i := range notes {
		notes[i] = new(note)
	}
	s, err := openStack(layers, notes)
	if err != nil {
		return nil, err
	}
	defer s.close()
	first := map[string]string{}
	var all []thing
	var walk func(dir string) error
	walk = func(dir string) error {
		chain, err := s.chain(dir)
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, i := range chain {
			entries, err := os.ReadDir(filepath.Join(layers[i], dir))
			if err != nil {
				return err
			}
			for _, e := range entries {
				names[e.Name()] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			p := path.Join(dir, name)
			f, err := s.find(p)
			if err != nil {
				return err
			}
			if f.what == nothing {
				continue
			}
			one, err := look(filepath.Join(layers[f.layer], p), p)
			if err != nil {
				return err
			}
			if form.shifted() {
				one.UID, one.GID = one.UID-uint32(form.Base), one.GID-uint32(form.Base)
			} else {
				one.UID, one.GID = 0, 0
			}
			if f.what == aFile {
				id := fmt.Sprint(f.stat.Ino)
				if _, again := first[id]; !again {
					first[id] = p
				}
				one.Twins = first[id]
			}
			all = append(all, one)
			if f.what != aFile {
				if err := walk(p); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk("."); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b thing) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return all, nil
}

// contents lists archives for a person.
func contents(t testing.TB, archives [][]byte) string {
	var b strings.Builder
	for i, a := range archives {
		fmt.Fprintf(&b, "layer %d\n", i)
		r := tar.NewReader(bytes.NewReader(a))
		for {
			h, err := r.Next()
			if err != nil {
				break
			}
			fmt.Fprintf(&b, "  %c %q -> %q %o %d:%d\n", h.Typeflag, h.Name, h.Linkname, h.Mode, h.Uid, h.Gid)
		}
	}
	return b.String()
}

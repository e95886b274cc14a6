package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
)

// What an archive may not do, and how it is told.
func TestHostileArchivesAreRefused(t *testing.T) {
	long := strings.Repeat("p/", 3000) + "x"
	header := func(h tar.Header) entry { return entry{h, ""} }
	for name, c := range map[string]struct {
		entries []entry
		want    Reason
		says    string
	}{
		"upwards":                    {[]entry{file("../canary", "x")}, Unsafe, `"../canary"`},
		"upwards and back":           {[]entry{file("a/../../a/x", "x")}, Unsafe, `"a/../../a/x"`},
		"upwards inside":             {[]entry{file("a/../b", "x")}, Unsafe, `"a/../b"`},
		"absolute":                   {[]entry{file("/canary", "x")}, Unsafe, `"/canary"`},
		"through a link upwards":     {[]entry{symlink("s", ".."), file("s/canary", "x")}, Unsafe, `"s/canary"`},
		"through an absolute link":   {[]entry{symlink("s", "/tmp"), file("s/canary", "x")}, Unsafe, `"s/canary"`},
		"through a link inside":      {[]entry{folder("d"), symlink("s", "d"), file("s/x", "x")}, Unsafe, `"s/x"`},
		"through two links":          {[]entry{symlink("s", "t"), symlink("t", ".."), file("s/t/x", "x")}, Unsafe, `"s/t/x"`},
		"a folder through a link":    {[]entry{symlink("s", ".."), folder("s/d/")}, Unsafe, `"s/d/"`},
		"a whiteout through a link":  {[]entry{symlink("s", ".."), file("s/.wh.canary", "")}, Unsafe, `"s/.wh.canary"`},
		"opaque through a link":      {[]entry{symlink("s", ".."), file("s/.wh..wh..opq", "")}, Unsafe, `"s/.wh..wh..opq"`},
		"a whiteout of the parent":   {[]entry{file("d/.wh...", "")}, Unsafe, `"d/.wh..."`},
		"a whiteout of the folder":   {[]entry{file("d/.wh..", "")}, Unsafe, `"d/.wh.."`},
		"a whiteout of nothing":      {[]entry{file("d/.wh.", "")}, Unsafe, `"d/.wh."`},
		"a whiteout as a folder":     {[]entry{file(".wh.d/x", "")}, Malformed, `".wh.d/x"`},
		"a hard link upwards":        {[]entry{hardlink("l", "../canary")}, Unsafe, `"../canary"`},
		"a hard link, absolute":      {[]entry{hardlink("l", "/etc/passwd")}, Unsafe, `"/etc/passwd"`},
		"a hard link through a link": {[]entry{symlink("s", ".."), hardlink("l", "s/canary")}, Unsafe, `"l"`},
		"a hard link to a folder":    {[]entry{folder("d"), hardlink("l", "d")}, Malformed, `"l"`},
		"a hard link to the root":    {[]entry{hardlink("l", "./")}, Malformed, `"l"`},
		"a hard link to nothing":     {[]entry{hardlink("l", "nowhere")}, Malformed, `"nowhere"`},
		"a hard link into itself":    {[]entry{folder("d"), file("d/f", "x"), hardlink("d", "d/f")}, Malformed, `"d"`},
		"below a file":               {[]entry{file("f", "x"), file("f/x", "x")}, Malformed, `"f/x"`},
		"below a hard link to come":  {[]entry{hardlink("f", "low"), file("f/x", "x")}, Malformed, `"f/x"`},
		"the root as a file":         {[]entry{file(".", "")}, Malformed, `"."`},
		"an unknown type":            {[]entry{header(tar.Header{Name: "x", Typeflag: 'Q', Format: tar.FormatUSTAR})}, Malformed, "'Q'"},
		"a long path":                {[]entry{file(long, "x")}, TooLarge, "6001 bytes"},
		"a long name":                {[]entry{file(strings.Repeat("n", 300), "x")}, TooLarge, "300 bytes"},
		"a long link":                {[]entry{symlink("s", strings.Repeat("t/", 4000))}, TooLarge, `"s"`},
		"a large file":               {[]entry{file("f", strings.Repeat("x", 2000))}, TooLarge, "2000 bytes"},
		"many bytes":                 {[]entry{file("f", strings.Repeat("x", 900)), file("g", strings.Repeat("x", 900)), file("h", strings.Repeat("x", 900))}, TooLarge, "2500 bytes"},
		"many entries":               {[]entry{file("1", ""), file("2", ""), file("3", ""), file("4", ""), file("5", "")}, TooLarge, "4 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			around := t.TempDir()
			dir := filepath.Join(around, "in", "store")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			canary := filepath.Join(around, "in", "canary")
			if err := os.WriteFile(canary, []byte("alive"), 0o644); err != nil {
				t.Fatal(err)
			}
			limits := Limits{File: 1500, Bytes: 2500, Entries: 4}
			_, _, err := unpackAll(t.Context(), dir, Form{}, marksFor(Form{}), limits, archive(t, c.entries...))
			if reasonOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s), want %s and %s", err, reasonOf(err), c.want, c.says)
			}
			if b, err := os.ReadFile(canary); string(b) != "alive" {
				t.Errorf("the canary says %q, %v", b, err)
			}
			if left, _ := os.ReadDir(filepath.Join(around, "in")); len(left) != 2 {
				t.Errorf("beside the folder there is %v", left)
			}
		})
	}
}

// What comes compressed is bounded by what went in.
func TestBombs(t *testing.T) {
	zeros := archive(t, entry{tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644}, strings.Repeat("\x00", free+(32<<20))})
	var g, z bytes.Buffer
	gw := gzip.NewWriter(&g)
	gw.Write(zeros)
	gw.Close()
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	zw.Write(zeros)
	zw.Close()
	for name, b := range map[string][]byte{"gzip": g.Bytes(), "zstd": z.Bytes()} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			path := filepath.Join(top, "bomb")
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, filepath.Join(top, "store"), Options{}).Import(t.Context(), path)
			if reasonOf(err) != TooLarge || diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), "200 times") {
				t.Errorf("%v", err)
			}
			nothingLeft(t, filepath.Join(top, "store"))
		})
	}
}

// nothingLeft looks for what a failure should have removed.
func nothingLeft(t testing.TB, store string) {
	t.Helper()
	for _, d := range []string{"layers", "images", "refs", "leases", "tmp"} {
		names, err := os.ReadDir(filepath.Join(store, "user", d))
		if err != nil || len(names) != 0 {
			t.Errorf("in %s there is %v, %v", d, names, err)
		}
	}
}

func TestTruncatedAndGarbled(t *testing.T) {
	whole := archive(t, folder("d"), file("d/f", strings.Repeat("text ", 1000)))
	var g bytes.Buffer
	w := gzip.NewWriter(&g)
	w.Write(whole)
	w.Close()
	flipped := bytes.Clone(g.Bytes())
	flipped[len(flipped)/2] ^= 0xff
	for name, b := range map[string][]byte{
		"cut in a file":   whole[:2000],
		"cut in a header": whole[:700],
		"cut gzip":        g.Bytes()[:g.Len()/2],
		"flipped gzip":    flipped,
		"bzip2":           []byte("BZh91AY&SY and so on"),
		"text":            []byte(strings.Repeat("this is no archive\n", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			path := filepath.Join(top, "image.tar")
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, filepath.Join(top, "store"), Options{}).Import(t.Context(), path)
			var e *Error
			if !errors.As(err, &e) || e.Reason != Malformed || !strings.HasPrefix(err.Error(), "import image: "+path+": ") {
				t.Errorf("%v", err)
			}
			nothingLeft(t, filepath.Join(top, "store"))
		})
	}
}

// Entries of one name follow each other, folders imply what is above them, and what
// cannot be kept is counted.
func TestOddArchives(t *testing.T) {
	mode := func(e entry, m int64) entry { e.Mode = m; return e }
	owned := func(e entry, uid, gid int) entry { e.Uid, e.Gid = uid, gid; return e }
	with := func(e entry, records map[string]string) entry { e.PAXRecords = records; return e }
	a := archive(t,
		file("twice", "1"), file("twice", "2"),
		file("was file", "1"), folder("was file"), file("was file/x", "2"),
		folder("was folder"), file("was folder/x", "1"), file("was folder", "2"),
		folder("was implied/x/y"), symlink("was implied", "elsewhere"),
		file("implied/by/this", "1"),
		mode(folder("dressed"), 0o1777), mode(file("dressed/tool", "1"), 0o6755),
		file("one", "1"), hardlink("two", "one"), file("one", "other"), hardlink("three", "two"), hardlink("three", "three"),
		symlink("link", "/etc/passwd"), hardlink("link too", "link"),
		entry{tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3, Mode: 0o666}, ""},
		entry{tar.Header{Name: "whiteout", Typeflag: tar.TypeChar, Mode: 0o666}, ""},
		entry{tar.Header{Name: "disk", Typeflag: tar.TypeBlock, Mode: 0o666}, ""},
		owned(file("stranger", "1"), 70000, 1<<20),
		with(file("attributes", "1"), map[string]string{
			"SCHILY.xattr.user.ours": "x\x00y", "SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.trusted.overlay.opaque": "y",
			"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		}),
		file(".wh..wh.plnk", ""), file(".wh..wh.plnk/12.34", ""),
	)
	forms := []Form{{}}
	if os.Geteuid() == 0 {
		forms = append(forms, rangeForm)
	} else {
		t.Log("owners are not looked at: only root can give files away")
	}
	for _, form := range forms {
		dir := t.TempDir()
		_, notes, err := unpackAll(t.Context(), dir, form, marksFor(form), Limits{}, a)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := list(filepath.Join(dir, "layer0"))
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]thing{}
		for _, e := range seen {
			by[string(e.Path)] = e
		}
		text := func(p string) string {
			b, _ := os.ReadFile(filepath.Join(dir, "layer0", p))
			return string(b)
		}
		for p, want := range map[string]string{"twice": "2", "was file/x": "2", "was folder": "2", "one": "other", "two": "1", "three": "1"} {
			if got := text(p); got != want {
				t.Errorf("%s holds %q", p, got)
			}
		}
		if by["two"].Twins != by["three"].Twins || by["one"].Twins == by["two"].Twins || by["link"].Twins != by["link too"].Twins {
			t.Errorf("twins: %+v", by)
		}
		if by["was implied"].Text != "elsewhere" || by["link"].Text != "/etc/passwd" {
			t.Errorf("links: %+v", by)
		}
		wantTool := uint32(0o100755)
		if form.shifted() {
			wantTool = 0o106755
			if e := by["stranger"]; e.UID != uint32(form.Base+nobody) || e.GID != uint32(form.Base+nobody) {
				t.Errorf("stranger %+v", e)
			}
			if e := by["implied/by"]; e.UID != uint32(form.Base) {
				t.Errorf("implied %+v", e)
			}
		}
		if by["dressed/tool"].Mode != wantTool || by["dressed"].Mode != 0o41777 || by["implied"].Mode != 0o40755 {
			t.Errorf("modes %o %o %o", by["dressed/tool"].Mode, by["dressed"].Mode, by["implied"].Mode)
		}
		if by["attributes"].Extra != `{"user.ours":"x\u0000y"}` {
			t.Errorf("attributes %s", by["attributes"].Extra)
		}
		if x := attribute(-100, filepath.Join(dir, "layer0", "attributes"), "security.capability"); x != "" {
			t.Errorf("capability %q", x)
		}
		strangers := int64(0)
		if form.shifted() {
			strangers = 1
		}
		if n := notes[0]; n.Devices != 3 || n.Attributes != 3 || n.Strangers != strangers {
			t.Errorf("note %+v", n)
		}
		for _, gone := range []string{"null", "whiteout", "disk", ".wh..wh.plnk"} {
			if _, is := by[gone]; is {
				t.Errorf("%s is there", gone)
			}
		}
	}
}

// Holes of sparse files stay holes.
func TestSparse(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(root, "f"))
	if err != nil {
		t.Fatal(err)
	}
	for at, s := range map[int64]string{0: "begin", 5 << 20: "middle", 9<<20 - 3: "end"} {
		if _, err := f.WriteAt([]byte(s), at); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	for _, format := range []string{"gnu", "posix"} {
		path := filepath.Join(top, format+".tar")
		run(t, "tar", "-c", "--sparse", "--format="+format, "-C", root, "-f", path, ".")
		i, err := open(t, filepath.Join(top, "store "+format), Options{}).Import(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := look(filepath.Join(i.Layers[0], "f"), "f")
		if err != nil {
			t.Fatal(err)
		}
		want, err := look(filepath.Join(root, "f"), "f")
		if err != nil {
			t.Fatal(err)
		}
		if got.Text != want.Text || got.Size != want.Size || got.blocks > 64 {
			t.Errorf("%s: %+v, want %+v", format, got, want)
		}
		i.Close()
	}
}

// The end of a context ends an unpacking, and is what it ends with.
func TestCancelled(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "image.tar")
	if err := os.WriteFile(path, archive(t, file("f", "x")), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := open(t, filepath.Join(top, "store"), Options{}).Import(ctx, path); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	nothingLeft(t, filepath.Join(top, "store"))
}

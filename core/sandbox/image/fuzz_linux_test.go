package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fuzzLimits keep an input's work small.
var fuzzLimits = Limits{Bytes: 1 << 20, File: 1 << 20, Entries: 200, Path: 4095, Layers: 10, Ratio: 200}

// Whatever the bytes, nothing outside the folder is made, changed, or linked to; what is
// unpacked can be read as a stack; and what is refused is refused by a reason.
func FuzzUnpack(f *testing.F) {
	seeds := [][]entry{
		{folder("d"), file("d/f", "text"), symlink("d/l", "../../canary"), hardlink("d/h", "d/f")},
		{file("../canary", "x")}, {symlink("s", ".."), file("s/canary", "x")}, {symlink("s", ".."), hardlink("h", "s/canary")},
		{hardlink("h", "../canary")}, {file("a/.wh.b", ""), file("a/.wh..wh..opq", ""), folder("a")}, {hardlink("h", "low"), file(".wh.h", "")},
		{file("a", "1"), folder("a"), file("a/b", "2"), symlink("a", "."), folder("a/c")}, {folder("etc"), file("etc/passwd", "a:b:1:2:::\n")},
		{symlink("etc", "/"), symlink("passwd", "etc/passwd")},
		{entry{tar.Header{Name: "p", Typeflag: tar.TypeReg, ModTime: time.Unix(1, 5), Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "1", "SCHILY.xattr.user.overlay.opaque": "y"}}, "x"}},
	}
	for _, s := range seeds {
		f.Add(archive(f, s...), archive(f, file("low", "low")))
	}
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, upper, lower []byte) {
		around, err := os.MkdirTemp(top, "")
		if err != nil {
			t.Fatal(err)
		}
		defer removeAll(t, around)
		inside := filepath.Join(around, "inside")
		if err := os.Mkdir(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{filepath.Join(around, "canary"), filepath.Join(inside, "canary")} {
			if err := os.WriteFile(c, []byte("alive"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b := &budget{limits: fuzzLimits}
		var dirs []string
		var notes []*note
		for i, a := range [][]byte{lower, upper} {
			dir := filepath.Join(inside, []string{"lower", "upper"}[i])
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			l := layer{size: int64(len(a)), sources: 1, open: func(context.Context, int) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a)), nil }}
			n, _, err := l.unpackInto(t.Context(), 0, dir, Form{}, marksFor(Form{}), b, func(int64) {})
			if err == nil {
				dirs, notes = append([]string{dir}, dirs...), append([]*note{n}, notes...)
			} else if reasonOf(err) == "" && !ordinary(err) {
				t.Errorf("without a reason: %v", err)
			}
		}
		if len(dirs) > 0 {
			s, err := openStack(dirs, notes)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if _, err := trim(s, notes, filepath.Join(inside, "trim"), Form{}, b); err != nil && reasonOf(err) == "" && !ordinary(err) {
				t.Errorf("trim without a reason: %v", err)
			}
			if _, err := s.read("etc/passwd"); err != nil {
				t.Errorf("read: %v", err)
			}
		}
		for dir, want := range map[string]string{around: "canary inside", inside: "canary lower trim upper"} {
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				if !strings.Contains(" "+want+" ", " "+e.Name()+" ") {
					t.Errorf("in %s there is %s", dir, e.Name())
				}
			}
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir, "canary"), &st); err != nil || st.Nlink != 1 || st.Mode != unix.S_IFREG|0o600 {
				t.Errorf("the canary has mode %o and %d names, %v", st.Mode, st.Nlink, err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "canary")); string(text) != "alive" {
				t.Errorf("the canary says %q, %v", text, err)
			}
		}
	})
}

// ordinary is for what a file system says to names that it cannot have.
func ordinary(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EILSEQ) || errors.Is(err, unix.EMLINK)
}

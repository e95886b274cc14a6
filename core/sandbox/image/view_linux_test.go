package image

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
)

// A view is what a mount would show, without one.
func TestView(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	at, _ := Path(imagetest.Save(t, imagetest.Image(t, v1.Config{},
		imagetest.Layer(t, imagetest.File("a/f", "below\n"), imagetest.File("a/gone", "x"), imagetest.Folder("b/.git"), imagetest.File("b/.git/x/.git", "x"),
			imagetest.Link("c", "/a"), imagetest.Link("a/up", "../../../b/./new/x"), imagetest.Link("loop", "loop"), imagetest.File("d/.git", "x"), imagetest.File("a/.git", "x")),
		imagetest.Layer(t, imagetest.File("a/f", "above\n").Allow(0o600), imagetest.Gone("a/gone"), imagetest.Gone("a/.git"), imagetest.Opaque("d"), imagetest.File("late/.git/y", "y"),
			imagetest.HardLink("h", "a/up"), imagetest.HardLink("g", "a/f")))))
	i, err := s.Import(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	v, err := i.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	found, err := v.Find("/", ".git")
	if d := cmp.Diff([]string{"/b/.git", "/late/.git"}, found); d != "" || err != nil {
		t.Errorf("%v, want -, got +:\n%s", err, d)
	}
	for p, want := range map[string]string{"/": "/", "/c/f": "/a/f", "/a/up": "/b/new/x", "/c/../c/none": "/a/none", "/none/../b": "/b"} {
		if got, err := v.Resolve(p); err != nil || got != want {
			t.Errorf("%s leads to %s, %v, want %s", p, got, err, want)
		}
	}
	if _, err := v.Resolve("/loop/x"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("in circles: %v", err)
	}
	if b, err := v.Read("/g", 6); err != nil || string(b) != "above\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := v.Read("/a/f", 5); err == nil {
		t.Error("more than the limit was read")
	}
	for _, p := range []string{"/a/gone", "/a/.git", "/d/.git", "/none", "/none/x", "/c/f"} {
		if _, err := v.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	e, err := v.Lstat("/a/f")
	if err != nil || !e.IsFile() || e.Mode&0o777 != 0o600 || e.UID != os.Geteuid() {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = v.Lstat("/c"); err != nil || !e.IsLink() || e.Target != "/a" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = v.Lstat("/"); err != nil || !e.IsFolder() {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestPath(t *testing.T) {
	for ref, want := range map[string]string{"tar:/a.tar": "/a.tar", "oci:./l": "./l", "dir:../r": "../r", "dir:1.0": "", "tar:latest": "", "python:3.12": "", "/a.tar": ""} {
		if got, is := Path(ref); got != want || is != (want != "") {
			t.Errorf("%s: %q, %v", ref, got, is)
		}
	}
}

package image

import (
	"archive/tar"
	"strings"
	"testing"
)

// A stack as the kernel's overlay shows it, in the three ways that it is mounted.
func TestOverlayShowsTheImage(t *testing.T) {
	layers := [][]byte{
		archive(t, folder("etc/"), file("etc/kept", "1"), file("etc/gone", "1"), folder("old/"), file("old/x", "1"),
			folder("deep/"), folder("deep/er/"), file("deep/er/gone", "1"), file("top", "1")),
		archive(t, file("etc/.wh.gone", ""), folder("old/"), file("old/.wh..wh..opq", ""), file("old/new", "2"),
			file("deep/er/.wh.gone", ""), file(".wh.top", ""), file("bare/.wh.nothing", ""), file("old/.wh.x", "")),
	}
	want := []string{"bare", "deep", "deep/er", "etc", "etc/kept", "old", "old/new"}
	for name, form := range map[string]Form{"one user": {}, "a range": rangeForm} {
		for marked, byAttribute := range map[string]bool{"devices": false, "attributes": true} {
			t.Run(name+", "+marked, func(t *testing.T) {
				if err := mountable(t, form); err != nil {
					t.Skipf("overlays cannot be mounted here: %v", err)
				}
				m := marksFor(form)
				m.whiteouts = byAttribute
				dirs, _, err := unpackAll(t.Context(), t.TempDir(), form, m, Limits{}, layers...)
				if err != nil {
					t.Fatal(err)
				}
				seen, err := mounted(t, dirs, form)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, e := range seen {
					got = append(got, string(e.Path))
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("seen %q", got)
				}
				if form.shifted() && !byAttribute {
					seen, err := mountedByRoot(t, dirs)
					if err != nil {
						t.Fatal(err)
					}
					if len(seen) != len(want) {
						t.Errorf("root sees\n%s", render(seen))
					}
				}
			})
		}
	}
}

// A hard link to a file of a lower layer is a copy of it, and hides what was in its place.
func TestLinksToLowerLayers(t *testing.T) {
	if err := mountable(t, Form{}); err != nil {
		t.Skipf("overlays cannot be mounted here: %v", err)
	}
	pipe := entry{tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o640}, ""}
	dirs, _, err := unpackAll(t.Context(), t.TempDir(), Form{}, marksFor(Form{}), Limits{},
		archive(t, folder("place"), file("place/hidden", "1"), file("low", "1"), pipe, symlink("link", "low"), file("gone", "1")),
		archive(t, hardlink("place", "low"), hardlink("again", "place"), hardlink("pipe too", "pipe"), hardlink("link too", "link"), hardlink("lost", "low")),
		archive(t, folder("place"), file("place/new", "2"), hardlink("third", "again"), file(".wh.lost", "")),
	)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := mounted(t, dirs, Form{})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]thing{}
	var got []string
	for _, e := range seen {
		by[string(e.Path)] = e
		got = append(got, string(e.Path))
	}
	if strings.Join(got, " ") != "again gone link link too low pipe pipe too place place/new third" {
		t.Errorf("seen %q", got)
	}
	for copied, original := range map[string]string{"again": "low", "third": "low", "pipe too": "pipe", "link too": "link"} {
		a, b := by[copied], by[original]
		if a.Mode != b.Mode || a.Text != b.Text || a.Time != b.Time {
			t.Errorf("%s is %+v, %s is %+v", copied, a, original, b)
		}
	}
	if by["third"].Twins != by["again"].Twins {
		t.Errorf("twins: %s", render(seen))
	}
}

package image

import (
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

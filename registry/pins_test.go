package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
)

const lockText = `# The plugins of a run, pinned by digest. Written by ` + "`valence plugin add`" + `.

[[plugin]]
ref = "plugins/repro"
name = "repro"
version = "0.1.0"
transport = "wasm"
digest = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"

[[plugin]]
ref = "review@1.2.0"
name = "review"
version = "1.2.0"
transport = "wasm"
digest = "sha256:00000000000000000000000000000000000000000000000000000000000000bb"
signer = "acme"
`

func TestPins(t *testing.T) {
	pins, err := ParsePins("plugins.lock", []byte(lockText))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(pins.Text()); got != lockText {
		t.Errorf("written again:\n%s", got)
	}
	if p, ok := pins.Find("review@1.2.0", WASM); !ok || p.Signer != "acme" || p.at.Line != 10 {
		t.Errorf("%+v %v", p, ok)
	}
	if _, ok := pins.Find("review@1.2.0", Process); ok {
		t.Error("a module's pin is taken for a process")
	}
	pins, err = ParsePins("plugins.lock", []byte(`plugin = [{ref = "b", name = "b", version = "1.0.0", digest = "`+Digest(nil)+`"}]`))
	if err != nil || pins[0].Transport != WASM {
		t.Errorf("%+v, %v", pins, err)
	}
	if pins, err := ReadPins(filepath.Join(t.TempDir(), "none")); pins != nil || err != nil {
		t.Errorf("no file: %v, %v", pins, err)
	}
}

func TestPinDiagnostics(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"not TOML", `"review"`, `review`, "error[P002]: not TOML"},
		{"unknown key", `signer`, `singer`, `error[P003]: unknown key "singer"
  --> d/plugins.lock:16:1
 16 | singer = "acme"
    | ^^^^^^ did you mean "signer"?
[[plugin]] accepts: ref, name, version, transport, digest, signer`},
		{"unknown table", `[[plugin]]`, `[[plugins]]`, `error[P003]: unknown key "plugins"
  --> d/plugins.lock:3:3
 3 | [[plugins]]
   |   ^^^^^^^ did you mean "plugin"?
plugins.lock accepts: plugin`},
		{"wrong type", `"review"`, `1`, "error[P004]: wrong type"},
		{"no digest", `digest = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"`, ``, `error[P005]: key "digest" is missing
  --> d/plugins.lock:3:3
 3 | [[plugin]]
   |   ^^^^^^ add digest = "sha256:…"`},
		{"short digest", `00aa`, `aa`, `error[P006]: digest "sha256:000000000000000000000000000000000000000000000000000000000000aa" is not one
  --> d/plugins.lock:8:10
`},
		{"bad transport", `"wasm"`, `"wasi"`, `error[P006]: transport "wasi" is not one`},
		{"empty ref", `"plugins/repro"`, `""`, `error[P006]: ref "" is not one`},
		{"pinned twice", `plugins/repro`, `review@1.2.0`, `error[P006]: plugin "review@1.2.0" is pinned twice
  --> d/plugins.lock:10:3
 10 | [[plugin]]
    |   ^^^^^^ keep one`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParsePins("d/plugins.lock", []byte(strings.Replace(lockText, c.from, c.to, 1)))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got\n%v\nwant\n%s", err, c.want)
			}
			if k := diag.KindOf(err); k != diag.KindPlugin {
				t.Errorf("kind %s", k)
			}
		})
	}
}

func TestPinsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pins Pins
		for range rapid.IntRange(0, 5).Draw(t, "pins") {
			pins = pins.with(Pin{
				Ref:       rapid.String().Filter(printable).Draw(t, "ref"),
				Name:      rapid.StringMatching(`[a-z][a-z0-9]{0,5}`).Draw(t, "name"),
				Version:   rapid.StringMatching(`[0-9]\.[0-9]\.[0-9]`).Draw(t, "version"),
				Transport: rapid.SampledFrom([]string{WASM, Process}).Draw(t, "transport"),
				Digest:    Digest([]byte(rapid.String().Draw(t, "bytes"))),
				Signer:    rapid.SampledFrom([]string{"", "acme"}).Draw(t, "signer"),
			})
		}
		back, err := ParsePins("plugins.lock", pins.Text())
		if err != nil {
			t.Fatalf("%v\n%s", err, pins.Text())
		}
		for i := range back {
			back[i].at = diag.Source{}
		}
		if len(back)+len(pins) > 0 && !reflect.DeepEqual(back, pins) {
			t.Errorf("%+v, want %+v", back, pins)
		}
	})
}

func FuzzParsePins(f *testing.F) {
	f.Add([]byte(lockText))
	f.Add([]byte("plugin = [{ref = 'a'}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pins, err := ParsePins("plugins.lock", b)
		if err != nil {
			if err.Error() == "" || diag.KindOf(err) != diag.KindPlugin {
				t.Errorf("%q of kind %s", err, diag.KindOf(err))
			}
			return
		}
		back, err := ParsePins("plugins.lock", pins.Text())
		if err != nil || len(back) != len(pins) {
			t.Errorf("%v\n%s", err, pins.Text())
		}
	})
}

func TestPinnedFolder(t *testing.T) {
	dir := plugin(t, nil)
	o := Options{Dir: filepath.Dir(dir), Cache: t.TempDir(), Lock: filepath.Join(t.TempDir(), LockFile)}
	ref := filepath.Base(dir)
	m := resolve(t, ref, o)

	o.Locked = true
	_, err := Resolve(t.Context(), ref, o)
	wants(t, err, "P016", "is not pinned", "valence plugin add "+ref, "looked into "+o.Lock)

	pinned, err := o.Pin(t.Context(), m)
	if err != nil || len(pinned) != 1 || pinned[0].Before != "" || pinned[0].Digest != m.Digest {
		t.Fatalf("%+v, %v", pinned, err)
	}
	for _, spelling := range []string{ref, "./" + ref, ref + "/"} {
		if again := resolve(t, spelling, o); again.Digest != m.Digest || !again.Pinned || m.Pinned {
			t.Errorf("%s: %s", spelling, again.Digest)
		}
	}
	o.Transport = Process // has other bytes, which are not pinned
	_, err = Resolve(t.Context(), ref, o)
	wants(t, err, "P016")
	o.Transport = ""

	write(t, filepath.Join(dir, "shift.go"), strings.Replace(shift, "1", "2", 1))
	for _, o.Locked = range []bool{true, false} {
		_, err = Resolve(t.Context(), ref, o)
		wants(t, err, "P017", "is not the one that is pinned", "--> "+o.Lock+":3:3", "pinned  "+m.Digest+"  tiny 0.1.0", "found   sha256:", "valence plugin add "+ref)
	}
	free := o
	free.Lock = ""
	pinned, err = o.Pin(t.Context(), resolve(t, ref, free))
	if err != nil || pinned[0].Before != m.Digest {
		t.Fatalf("%+v, %v", pinned, err)
	}
	resolve(t, ref, o)
}

func TestManyPinAtOnce(t *testing.T) {
	o := Options{Cache: t.TempDir(), Lock: filepath.Join(t.TempDir(), LockFile)}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			m := &Module{Manifest: Manifest{Name: "tiny", Version: "0.1.0"}, Transport: WASM, Digest: Digest(nil), pinned: fmt.Sprintf("p%d", i)}
			if _, err := o.Pin(context.Background(), m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if pins, err := ReadPins(o.Lock); err != nil || len(pins) != 8 {
		t.Errorf("%d pins, %v", len(pins), err)
	}
	if left, err := os.ReadDir(filepath.Dir(o.Lock)); err != nil || len(left) != 1 {
		t.Errorf("left beside it: %v, %v", left, err)
	}
}

func TestBrokenLockFileIsRefused(t *testing.T) {
	o := Options{Cache: t.TempDir(), Lock: filepath.Join(t.TempDir(), LockFile)}
	write(t, o.Lock, "[[plugin]]\nref = 1\n")
	_, err := Resolve(t.Context(), plugin(t, nil), o)
	wants(t, err, "P004", o.Lock+":2:")
	if _, err := o.Pin(t.Context()); err == nil {
		t.Error("a broken lock file is overwritten")
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

package registry

import (
	"path/filepath"
	"testing"
)

// BenchmarkResolve is what a run's start pays for one plugin whose bytes are there
// already: asking the tool chain whether the sources are the same, or reading and
// hashing a pinned module of 3 MB and checking its signature.
func BenchmarkResolve(b *testing.B) {
	b.Run("folder", func(b *testing.B) {
		dir, o := plugin(b, nil), Options{Cache: b.TempDir()}
		for b.Loop() {
			resolve(b, dir, o)
		}
	})
	b.Run("pinned", func(b *testing.B) {
		h := open(b)
		o := h.options(b, new(log))
		k := key(b)
		o.Trust, o.Lock = []Signer{{"acme", k.Public()}}, filepath.Join(b.TempDir(), LockFile)
		path := filepath.Join(b.TempDir(), "tiny.wasm")
		code := WithSection([]byte("\x00asm\x01\x00\x00\x00"), ManifestSection, []byte(manifest))
		write(b, path, string(WithSection(code, "weight", make([]byte, 3_000_000))))
		pushed(b, path, "", &k, o)
		if _, err := o.Pin(b.Context(), resolve(b, "tiny@0.1.0", o)); err != nil {
			b.Fatal(err)
		}
		h.stop()
		for b.Loop() {
			resolve(b, "tiny@0.1.0", o)
		}
	})
}

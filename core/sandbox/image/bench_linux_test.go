package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// benchLayer is like a layer of packages: 4,000 files of 40 KB on average, of text that
// gzip brings to about a third.
func benchLayer(b *testing.B) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 2000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", r.Uint64()>>(r.IntN(7)*8))
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range 4000 {
		if i%50 == 0 {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("usr/lib/p%d/", i/50), Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
				b.Fatal(err)
			}
		}
		var text bytes.Buffer
		for n := int(r.ExpFloat64() * 40_000); text.Len() < n; {
			text.WriteString(words[r.IntN(len(words))])
			text.WriteByte(' ')
		}
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("usr/lib/p%d/f%d.py", i/50, i), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(text.Len())}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write(text.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkUnpack is in uncompressed bytes a second: this package as a store uses it, hashes
// included, with and without flushing to the disk, beside tar.
func BenchmarkUnpack(b *testing.B) {
	plain := benchLayer(b)
	var g, z bytes.Buffer
	gw := gzip.NewWriter(&g)
	gw.Write(plain)
	gw.Close()
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		b.Fatal(err)
	}
	zw.Write(plain)
	zw.Close()
	top := b.TempDir()
	for _, c := range []struct {
		name string
		data []byte
		flag string
	}{{"plain", plain, ""}, {"gzip", g.Bytes(), "-z"}, {"zstd", z.Bytes(), "--zstd"}} {
		path := filepath.Join(top, c.name)
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			b.Fatal(err)
		}
		each := func(b *testing.B, unpack func(dir string) error) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				dir := filepath.Join(top, "out")
				if err := os.Mkdir(dir, 0o755); err != nil {
					b.Fatal(err)
				}
				if err := unpack(dir); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				os.RemoveAll(dir)
				b.StartTimer()
			}
		}
		l := layer{diffID: digestOf(plain), digest: digestOf(c.data), size: int64(len(c.data)), sources: 1, open: fromFile(path)}
		unpacked := func(flush bool) func(string) error {
			return func(dir string) error {
				_, _, err := l.unpackInto(b.Context(), 0, dir, Form{}, marksFor(Form{}), &budget{limits: DefaultLimits()}, func(int64) {})
				if err == nil && flush {
					f, e := os.Open(dir)
					if e != nil {
						return e
					}
					err = (&scratch{dir, f}).flush()
					f.Close()
				}
				return err
			}
		}
		b.Run(c.name+"/valence", func(b *testing.B) { each(b, unpacked(false)) })
		b.Run(c.name+"/valence, flushed", func(b *testing.B) { each(b, unpacked(true)) })
		b.Run(c.name+"/tar", func(b *testing.B) {
			if out, err := exec.Command("tar", "--version").CombinedOutput(); err != nil {
				b.Skipf("no tar: %v %s", err, out)
			}
			each(b, func(dir string) error {
				args := []string{"-x", "-C", dir, "-f", path}
				if c.flag != "" {
					args = append([]string{c.flag}, args...)
				}
				if out, err := exec.CommandContext(b.Context(), "tar", args...).CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
		})
	}
}

package local

import (
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
)

// BenchmarkImageCycle is a sandbox's life with one command: on the host's tool chain, and
// on images of a few layers and of many.
func BenchmarkImageCycle(b *testing.B) {
	store := storeIn(b.TempDir(), image.Options{})
	for _, n := range []int{0, 1, 8, 40, 120} {
		b.Run(fmt.Sprintf("layers=%d", n), func(b *testing.B) {
			o := Options{Dir: b.TempDir(), Images: store}
			if n > 0 {
				layers := []v1.Layer{base(b)}
				for i := range n - 1 {
					layers = append(layers, imagetest.Layer(b, imagetest.File(fmt.Sprintf("opt/%d", i), "x")))
				}
				o.Image = saved(b, v1.Config{}, layers...)
			}
			d, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			if o.Image != "" {
				if err := d.Prepare(b.Context(), o.Image); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				cycle(b, d)
			}
		})
	}
}

// BenchmarkPull is a pull from a registry of this machine with the unpacking, until a first
// command has run, and the same once the image is kept.
func BenchmarkPull(b *testing.B) {
	host := imagetest.Serve(b, nil)
	i := imagetest.Suite(b)
	ref := host + "/suite:1"
	imagetest.Push(b, ref, i)
	kept := storeIn(b.TempDir(), image.Options{})
	for _, fresh := range []bool{true, false} {
		b.Run(fmt.Sprintf("fresh=%v", fresh), func(b *testing.B) {
			var bytes int64
			for b.Loop() {
				b.StopTimer()
				store := kept
				if fresh {
					store = storeIn(b.TempDir(), image.Options{})
				}
				d, err := New(Options{Dir: b.TempDir(), Images: store})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				s, err := d.Create(b.Context(), on(ref))
				if err != nil {
					b.Fatal(err)
				}
				if r, err := s.Exec(b.Context(), sandbox.Command{Shell: "true"}); err != nil || r.ExitCode != 0 {
					b.Fatalf("%s, %v", r.Output, err)
				}
				b.StopTimer()
				bytes = s.(*box).picture.image.Size
				s.Close()
				d.Close()
				b.StartTimer()
			}
			b.SetBytes(bytes)
		})
	}
}

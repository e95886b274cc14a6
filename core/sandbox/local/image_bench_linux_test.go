package local

import (
	"fmt"
	"sync"
	"testing"
	"time"

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

// BenchmarkImageAlive makes 512 sandboxes at once on an image of 31 layers, each of which
// runs a command and is diffed, and has them all alive then.
func BenchmarkImageAlive(b *testing.B) {
	layers := []v1.Layer{base(b)}
	for i := range 30 {
		layers = append(layers, imagetest.Layer(b, imagetest.File(fmt.Sprintf("work/f%02d", i), "x\n")))
	}
	o := Options{Dir: b.TempDir(), Images: storeIn(b.TempDir(), image.Options{}), Image: saved(b, v1.Config{WorkingDir: "/work"}, layers...)}
	for b.Loop() {
		d, err := New(o)
		if err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 512 {
			all.Go(func() {
				s, err := d.Create(b.Context(), sandbox.Spec{Limits: sandbox.Limits{Create: 5 * time.Minute}})
				if err != nil {
					b.Error(err)
					return
				}
				want := fmt.Sprintf("%d\nx\n", i)
				if r, err := s.Exec(b.Context(), sandbox.Command{Shell: fmt.Sprintf("echo %d > mine; cat mine f29", i), Timeout: 5 * time.Minute}); err != nil || string(r.Output) != want {
					b.Errorf("%q, %v", r.Output, err)
				}
				if c, err := s.Diff(b.Context(), 0); err != nil || len(c) != 1 {
					b.Errorf("%v, %v", c, err)
				}
			})
		}
		all.Wait()
		d.mu.Lock()
		b.ReportMetric(float64(len(d.boxes)), "alive")
		d.mu.Unlock()
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

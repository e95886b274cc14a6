package gorgonia

import (
	"context"
	"sync"
	"syscall"
	"testing"

	"github.com/valence-rl/valence/core/engine"
)

// cpu is the process's time on all cores so far, in seconds: on a shared machine the
// clock says little.
func cpu(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

// One step on 8 sequences of 256 tokens, all of them targets.
func BenchmarkTrain(b *testing.B) {
	c := DefaultConfig()
	e := open(b, c, Options{Threads: 1})
	data := randomData(c, []int{257, 257, 257, 257, 257, 257, 257, 257}, 1)
	for _, d := range data {
		for i := range d.Weights {
			d.Weights[i] = 1.0 / 2048
		}
	}
	b.ReportAllocs()
	start := cpu(b)
	for b.Loop() {
		if _, err := e.ForwardBackward(context.Background(), data, engine.Loss{Kind: engine.Clipped, Low: 0.2, High: 0.28}); err != nil {
			b.Fatal(err)
		}
		if _, err := e.OptimStep(context.Background(), engine.AdamParams{LearningRate: 1e-6, ClipNorm: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2048*float64(b.N)/(cpu(b)-start), "tokens/CPU-s")
}

// 64 sequences from one token to 256.
func BenchmarkDecode(b *testing.B) {
	c := DefaultConfig()
	e := open(b, c, Options{Threads: 1})
	b.ReportAllocs()
	start := cpu(b)
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				if _, err := e.Sample(context.Background(), engine.SampleRequest{Prompt: []int{i}, MaxTokens: 255, Temperature: 1, Seed: uint64(i)}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(64*255*float64(b.N)/(cpu(b)-start), "tokens/CPU-s")
}

// Command engine measures the embedded engine: tokens per CPU second of a training
// step and of batched sampling, for three sizes, beside PyTorch on the same machine
// in the same run where torch can be imported.
//
//	go run ./bench/engine [-repeats 5] [-python python3] [-sizes S,M,L]
//
// Each side runs on one core. CPU time, not the clock, is what counts: on a shared
// machine the clock measures the neighbours. The two sides take turns, a figure is
// the median of the repeats, and the ratios are what to compare between machines.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia"
)

// The workload: a training step on rows×length tokens, all of them targets, with the
// clipped loss and AdamW; sampling of batch sequences from 1 to length tokens.
const (
	rows   = 8
	length = 256
	batch  = 64
)

var sizes = []struct {
	name string
	c    gorgonia.Config
}{
	{"S", size(64, 5, 2)},
	{"M", gorgonia.DefaultConfig()},
	{"L", size(192, 6, 6)},
}

func size(hidden, layers, heads int) gorgonia.Config {
	c := gorgonia.DefaultConfig()
	c.Hidden, c.Layers, c.Heads, c.KVHeads, c.Intermediate = hidden, layers, heads, heads, 3*hidden
	return c
}

func main() {
	repeats := flag.Int("repeats", 5, "measurements of each figure; the median is shown")
	python := flag.String("python", "python3", "the interpreter that has torch; \"\" leaves PyTorch out")
	only := flag.String("sizes", "S,M,L", "which sizes")
	flag.Parse()
	if err := run(os.Stdout, *repeats, *python, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench engine:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, repeats int, python string, only []string) error {
	runtime.GOMAXPROCS(1)
	torch, err := startTorch(python)
	if err != nil {
		fmt.Fprintf(out, "PyTorch is left out: %v\n", err)
	} else {
		defer torch.stop()
		fmt.Fprintf(out, "PyTorch %s\n", torch.version)
	}
	fmt.Fprintf(out, "tokens per CPU second, one core, median of %d; training %d×%d, sampling %d×%d\n\n", repeats, rows, length, batch, length)
	fmt.Fprintf(out, "%-4s %10s  %-9s %9s %9s %7s\n", "SIZE", "PARAMETERS", "WORK", "VALENCE", "TORCH", "RATIO")
	for _, s := range sizes {
		if !slices.Contains(only, s.name) {
			continue
		}
		if err := measure(out, s.name, s.c, repeats, torch); err != nil {
			return err
		}
	}
	return nil
}

func measure(out io.Writer, name string, c gorgonia.Config, repeats int, torch *torchProcess) error {
	dir, err := os.MkdirTemp("", "bench-engine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := gorgonia.Create(dir, c, 1); err != nil {
		return err
	}
	e, err := gorgonia.Open(dir, gorgonia.Options{Threads: 1, MaxBatch: batch})
	if err != nil {
		return err
	}
	defer e.Close()
	for _, work := range []struct {
		name string
		f    func(e *gorgonia.Engine, c gorgonia.Config) error
		n    int
	}{{"training", train, rows * length}, {"sampling", sample, batch * length}} {
		var ours, theirs []float64
		for i := range repeats + 1 {
			before := cpuSeconds()
			if err := work.f(e, c); err != nil {
				return err
			}
			rate := float64(work.n) / (cpuSeconds() - before)
			other := 0.0
			if torch != nil {
				if other, err = torch.measure(work.name, c); err != nil {
					return err
				}
			}
			if i > 0 { // the first warms up
				ours, theirs = append(ours, rate), append(theirs, other)
			}
		}
		a, b := median(ours), median(theirs)
		fmt.Fprintf(out, "%-4s %10d  %-9s %9.0f", name, e.Info().Parameters, work.name, a)
		if torch != nil {
			fmt.Fprintf(out, " %9.0f %7.2f", b, a/b)
		}
		fmt.Fprintln(out)
	}
	return nil
}

func train(e *gorgonia.Engine, c gorgonia.Config) error {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]engine.Datum, rows)
	for i := range data {
		d := engine.Datum{Advantage: float32(r.NormFloat64())}
		for range length + 1 {
			d.Tokens = append(d.Tokens, r.IntN(c.Vocab))
		}
		for range length {
			d.Weights, d.Old = append(d.Weights, 1.0/(rows*length)), append(d.Old, -6.2)
		}
		data[i] = d
	}
	ctx := context.Background()
	if _, err := e.ForwardBackward(ctx, data, engine.Loss{Kind: engine.Clipped, Low: 0.2, High: 0.28}); err != nil {
		return err
	}
	_, err := e.OptimStep(ctx, engine.AdamParams{LearningRate: 1e-5, ClipNorm: 1, WeightDecay: 0.1})
	return err
}

func sample(e *gorgonia.Engine, c gorgonia.Config) error {
	var wg sync.WaitGroup
	errs := make([]error, batch)
	for i := range batch {
		wg.Go(func() {
			_, errs[i] = e.Sample(context.Background(), engine.SampleRequest{Prompt: []int{i % c.Vocab}, MaxTokens: length, Temperature: 1, Seed: uint64(i)})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// cpuSeconds is this process's time on all cores so far.
func cpuSeconds() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // only a wrong argument can fail
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[n/2] + x[(n-1)/2]) / 2
}

// torchProcess is torch_bench.py, which answers one line of JSON for each it reads.
type torchProcess struct {
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func startTorch(python string) (*torchProcess, error) {
	if python == "" {
		return nil, fmt.Errorf("-python is empty")
	}
	_, source, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(source), "torch_bench.py")
	if _, err := os.Stat(script); err != nil { // a binary run elsewhere
		script = filepath.Join("bench", "engine", "torch_bench.py")
	}
	cmd := exec.Command(python, script, "--serve")
	// The BLAS behind torch has threads of its own.
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &torchProcess{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if !t.out.Scan() {
		err := cmd.Wait()
		return nil, fmt.Errorf("%s: %w: %s", python, err, bytes.TrimSpace(complaint.Bytes()))
	}
	t.version = t.out.Text()
	return t, nil
}

func (t *torchProcess) measure(work string, c gorgonia.Config) (float64, error) {
	line, err := json.Marshal(map[string]any{
		"work": work, "vocab": c.Vocab, "hidden": c.Hidden, "layers": c.Layers, "heads": c.Heads, "kv_heads": c.KVHeads,
		"head_dim": c.HeadDim, "intermediate": c.Intermediate, "rows": rows, "length": length, "batch": batch,
	})
	if err != nil {
		return 0, err
	}
	if _, err := t.in.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	var rate float64
	if !t.out.Scan() {
		return 0, fmt.Errorf("torch_bench.py ended early")
	}
	return rate, json.Unmarshal(t.out.Bytes(), &rate)
}

func (t *torchProcess) stop() {
	t.in.Close()
	t.cmd.Wait()
}

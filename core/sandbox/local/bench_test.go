package local

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

var benchWorkspace = sdk.Workspace{Files: []sdk.File{{Path: "pkg/mod.py", Data: []byte("x = 1\n")}, {Path: "test.py", Data: []byte("import pkg.mod\n")}}}

func benchDriver(b *testing.B) *Driver {
	b.Helper()
	d, err := New(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

func cycle(b *testing.B, d *Driver) {
	s, err := d.Create(b.Context(), sandbox.Spec{Workspace: benchWorkspace})
	if err != nil {
		b.Error(err)
		return
	}
	if r, err := s.Exec(b.Context(), sandbox.Command{Shell: "echo hi"}); err != nil || string(r.Output) != "hi\n" {
		b.Errorf("%q, %v", r.Output, err)
	}
	s.Close()
}

// BenchmarkCycle is a sandbox's life with one command, one after the other.
func BenchmarkCycle(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		cycle(b, d)
	}
}

// BenchmarkCycleParallel is the same with eight at a time.
func BenchmarkCycleParallel(b *testing.B) {
	d := benchDriver(b)
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			cycle(b, d)
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		s, err := d.Create(b.Context(), sandbox.Spec{Workspace: benchWorkspace})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkExec(b *testing.B) {
	d := benchDriver(b)
	s, err := d.Create(b.Context(), sandbox.Spec{Workspace: benchWorkspace})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []sandbox.Command{{Args: []string{"/bin/true"}}, {Shell: "true"}, {Args: []string{"python3", "-c", "pass"}}} {
		b.Run(fmt.Sprint(c.Args, c.Shell), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Exec(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var n atomic.Int64
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Read(b.Context(), "pkg/mod.py", 0); err != nil {
				b.Fatal(err)
			}
			n.Add(1)
		}
	})
	b.Run("diff", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Diff(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

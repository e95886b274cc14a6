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

// BenchmarkLevels is the cycle in each level that this machine can be brought to.
func BenchmarkLevels(b *testing.B) {
	for _, l := range []struct {
		name    string
		options Options
	}{
		{"namespaces", Options{}}, {"no-groups", Options{refused: refused{groups: true}}}, {"disk", Options{Upper: UpperDisk}},
		{"bare", Options{Bare: true, refused: refused{namespaces: true}}},
	} {
		b.Run(l.name, func(b *testing.B) {
			l.options.Dir = b.TempDir()
			d, err := New(l.options)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			for b.Loop() {
				cycle(b, d)
			}
		})
	}
}

// BenchmarkVictim is a command's time in a sandbox alone, and beside one that takes
// all processes, CPU and output that it can get.
func BenchmarkVictim(b *testing.B) {
	d := benchDriver(b)
	for _, beside := range []bool{false, true} {
		b.Run(fmt.Sprintf("hog=%v", beside), func(b *testing.B) {
			victim, err := d.Create(b.Context(), sandbox.Spec{Workspace: benchWorkspace})
			if err != nil {
				b.Fatal(err)
			}
			defer victim.Close()
			if beside {
				hog, err := d.Create(b.Context(), sandbox.Spec{Limits: sandbox.Limits{CPUs: 1}})
				if err != nil {
					b.Fatal(err)
				}
				defer hog.Close()
				if _, err := hog.Exec(b.Context(), sandbox.Command{Shell: "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'while :; do :; done' & setsid sh -c 'yes > /tmp/x$$' & done"}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := victim.Exec(b.Context(), sandbox.Command{Args: []string{"/bin/true"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

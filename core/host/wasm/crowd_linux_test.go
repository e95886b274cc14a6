package wasm

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

// TestCrowd has a thousand evaluations wait for the host at once: they cost neither
// threads nor much memory.
func TestCrowd(t *testing.T) {
	const (
		evaluations = 1000
		threads     = 50                 // fewer
		memory      = 600 * (1 + shadow) // less, KiB each
	)
	m := frozen(t)
	in := prompt("run", "")
	before := private(t)
	var here, all sync.WaitGroup
	here.Add(evaluations)
	release := make(chan struct{})
	for n := range evaluations {
		all.Go(func() {
			want := fmt.Sprint("answer ", n)
			out, err := m.Call(t.Context(), wire.MethodEvaluate, in, func(context.Context, uint32, []byte) ([]byte, error) {
				here.Done()
				<-release
				return wire.Marshal(&sdk.RunResponse{Logs: []sdk.Log{{Output: want}}}), nil
			})
			var v sdk.Verdict
			if err == nil {
				err = wire.Unmarshal(out, &v)
			}
			if err != nil || v.Reason != want {
				t.Errorf("%q, %v; want %q", v.Reason, err, want)
			}
		})
	}
	here.Wait()
	if each := (private(t) - before) / evaluations; each >= memory {
		t.Errorf("%d KiB for each evaluation, want less than %d", each, memory)
	} else {
		t.Logf("%d KiB for each evaluation", each)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) >= threads {
		t.Errorf("%d threads, want fewer than %d", len(tasks), threads)
	}
	close(release)
	all.Wait()
}

// private is the memory that this process has for itself, in KiB.
func private(t *testing.T) int {
	debug.FreeOSMemory()
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Private_"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestCollectorPasses collects garbage while guests compute without end on all cores.
// A guest that cannot be stopped would never let a collection begin.
func TestCollectorPasses(t *testing.T) {
	m := open(t, skill(code(i32(1), i32(0), i32(0), call(hostCall), drop, forever)), Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var computing, all sync.WaitGroup
	guests := 2 * runtime.GOMAXPROCS(0)
	computing.Add(guests)
	ended := make(chan error, guests)
	for range guests {
		all.Go(func() {
			_, err := m.Call(ctx, 1, nil, func(context.Context, uint32, []byte) ([]byte, error) {
				computing.Done()
				return nil, nil
			})
			ended <- err
		})
	}
	computing.Wait()
	for range 5 {
		runtime.GC()
	}
	if len(ended) > 0 {
		t.Errorf("a guest ended by itself: %v", <-ended)
	}
	cancel()
	all.Wait()
	for range guests {
		fails(t, <-ended, transport.ReasonCancelled, "canceled")
	}
}

// TestCloseLeavesNothing: neither files nor mappings of a closed module are left.
func TestCloseLeavesNothing(t *testing.T) {
	images := func() (n int) {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		n = strings.Count(string(maps), "memfd:valence-image")
		files, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && (strings.Contains(to, "memfd:valence-image") || strings.HasSuffix(to, "/pagemap")) {
				n++
			}
		}
		return n
	}
	m, err := Open(t.Context(), skill(echo).bytes(), Config{Warm: 3})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := m.Call(t.Context(), 1, []byte("x"), refuse); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if images() == 0 {
		t.Error("no image while it is open")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := images(); n != 0 {
		t.Errorf("%d files and mappings are left", n)
	}
}

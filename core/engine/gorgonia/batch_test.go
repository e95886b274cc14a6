package gorgonia

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"
)

// Every number of threads gives the same bits, in training and in sampling.
func TestThreadsChangeNothing(t *testing.T) {
	c := DefaultConfig()
	c.Layers, c.MaxContext = 2, 200
	run := func(threads int) (weights []float32, loss float64, out []engine.Sampled) {
		e := open(t, c, Options{Threads: threads})
		roughen(e, 4)
		for i := range 3 {
			res, err := e.ForwardBackward(context.Background(), randomData(c, []int{190, 33, 64, 150, 2, 199, 120, 180, 90, 170}, uint64(i)), engine.Loss{Kind: engine.Clipped, Low: 0.2, High: 0.3, EntropyCof: 0.01})
			if err != nil {
				t.Fatal(err)
			}
			loss += res.Loss
			if _, err := e.OptimStep(context.Background(), engine.AdamParams{LearningRate: 1e-3, ClipNorm: 1, WeightDecay: 0.1}); err != nil {
				t.Fatal(err)
			}
		}
		out = make([]engine.Sampled, 6)
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() {
				var err error
				out[i], err = e.Sample(context.Background(), engine.SampleRequest{Prompt: randomData(c, []int{150}, uint64(i))[0].Tokens, MaxTokens: 20, Temperature: 1, Seed: uint64(i)})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return slices.Clone(e.state.weights), loss, out
	}
	w1, l1, o1 := run(1)
	for _, n := range []int{2, 3, 5} {
		w, l, o := run(n)
		if l != l1 || !slices.Equal(w, w1) {
			t.Errorf("%d threads: training differs", n)
		}
		for i := range o {
			if !slices.Equal(o[i].Tokens, o1[i].Tokens) || !slices.Equal(o[i].Logprobs, o1[i].Logprobs) {
				t.Errorf("%d threads: sample %d differs", n, i)
			}
		}
	}
	// AVX-512 and AVX2 compute the same chains.
	before, now := simd.Use(simd.AVX2)
	defer simd.Use(before)
	if now == simd.AVX2 && before == simd.AVX512 {
		if w, l, o := run(2); l != l1 || !slices.Equal(w, w1) || !slices.Equal(o[0].Logprobs, o1[0].Logprobs) {
			t.Error("AVX2 and AVX-512 differ")
		}
	}
}

// However a conversation is cut into calls, batched and cached, its tokens are those
// of a call on a fresh engine.
func TestCachingChangesNothing(t *testing.T) {
	c := small()
	plain, cached := open(t, c, Options{Threads: 1}), open(t, c, Options{Threads: 2, CacheBytes: 40000})
	roughen(plain, 6)
	roughen(cached, 6)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 5).Draw(t, "sessions")
		seed := rapid.Uint64().Draw(t, "seed")
		var wg sync.WaitGroup
		for i, id := range ids {
			prompt := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 60).Draw(t, "prompt")
			r := engine.SampleRequest{Prompt: prompt, MaxTokens: 4, Temperature: 1, Seed: seed + uint64(i)}
			want, err := plain.Sample(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			r.Session = fmt.Sprint(id)
			wg.Go(func() {
				got, err := cached.Sample(context.Background(), r)
				if err != nil || !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Logprobs, want.Logprobs) {
					t.Errorf("session %d: %v, %v; want %v", id, got, err, want)
				}
			})
		}
		wg.Wait()
	})
}

// A second turn feeds only what is new, and the cache stays within its limit.
func TestSessionsAreKeptWithinTheLimit(t *testing.T) {
	c := small()
	page := 4 * c.shape().PageLen()
	e := open(t, c, Options{CacheBytes: 3 * page})
	sample := func(id string, prompt []int) {
		if _, err := e.Sample(context.Background(), engine.SampleRequest{Session: id, Prompt: prompt, MaxTokens: 2, Temperature: 1}); err != nil {
			t.Fatal(err)
		}
	}
	idle := func() (ids []string, bytes int) {
		l := &e.loop
		l.mu.Lock()
		defer l.mu.Unlock()
		for id, s := range l.sessions.idle {
			ids = append(ids, fmt.Sprintf("%s:%d", id, len(s.tokens)))
			bytes += s.cache.Bytes(e.shape)
		}
		if bytes != l.sessions.bytes {
			t.Errorf("%d bytes accounted, %d held", l.sessions.bytes, bytes)
		}
		slices.Sort(ids)
		return ids, bytes
	}
	expect := func(want ...string) {
		t.Helper()
		ids, bytes := idle()
		if !slices.Equal(ids, want) || bytes > 3*page {
			t.Errorf("kept %v in %d bytes, want %v in at most %d", ids, bytes, want, 3*page)
		}
	}
	long := make([]int, 40)
	sample("a", long[:5])
	sample("b", long[:5])
	expect("a:6", "b:6")
	sample("a", long[:10])
	sample("c", long) // two pages: b, the oldest, must go
	expect("a:11", "c:41")
	e.Release("a")
	expect("c:41")
	sample("", long[:5])
	expect("c:41")
	if _, err := e.OptimStep(context.Background(), engine.AdamParams{}); err != nil {
		t.Fatal(err)
	}
	expect()
}

func TestTakeSharesThePrefix(t *testing.T) {
	e := open(t, small(), Options{})
	for name, c := range map[string]struct {
		prompt []int
		want   int
	}{
		"longer":     {[]int{1, 2, 3, 4, 5, 6}, 5},
		"other tail": {[]int{1, 2, 3, 9, 9, 9}, 3},
		"the same":   {[]int{1, 2, 3, 4, 5}, 4},
		"shorter":    {[]int{1, 2, 3}, 2},
		"another":    {[]int{7, 2, 3}, 0},
	} {
		if _, err := e.Sample(context.Background(), engine.SampleRequest{Session: "s", Prompt: []int{1, 2, 3, 4, 5}, MaxTokens: 1, Temperature: 1}); err != nil {
			t.Fatal(err)
		}
		e.loop.mu.Lock()
		cache, n := e.loop.sessions.take("s", c.prompt)
		e.loop.sessions.put("", cache, nil)
		e.loop.mu.Unlock()
		if n != c.want {
			t.Errorf("%s: %d tokens reused, want %d", name, n, c.want)
		}
	}
}

// A cancelled Sample returns although its sequence could go on for long, and others
// are not disturbed.
func TestCancelWhileSampling(t *testing.T) {
	e := open(t, DefaultConfig(), Options{Threads: 2, MaxBatch: 3})
	other := make(chan error, 1)
	go func() {
		_, err := e.Sample(context.Background(), engine.SampleRequest{Prompt: []int{1}, MaxTokens: 300, Temperature: 1})
		other <- err
	}()
	var wg sync.WaitGroup
	for i := range 8 { // more than fit at once: some are cancelled while they wait
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			_, err := e.Sample(ctx, engine.SampleRequest{Session: fmt.Sprint(i), Prompt: []int{2}, MaxTokens: 511, Temperature: 1})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
	wg.Wait()
	if err := <-other; err != nil {
		t.Error(err)
	}
}

// Close ends samples under way with an error.
func TestCloseWhileSampling(t *testing.T) {
	e := open(t, DefaultConfig(), Options{Threads: 2, MaxBatch: 2})
	started, ended := make(chan struct{}, 5), make(chan error, 5)
	for range 5 {
		go func() {
			started <- struct{}{}
			_, err := e.Sample(context.Background(), engine.SampleRequest{Prompt: []int{1}, MaxTokens: 511, Temperature: 1})
			ended <- err
		}()
	}
	for range 5 {
		<-started
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := <-ended; !errors.Is(err, errClosed) {
			t.Errorf("%v, want %v", err, errClosed)
		}
	}
}

// A batch that needs several micro-batches gives the sum of its parts.
func TestMicroBatches(t *testing.T) {
	c := small()
	e := open(t, c, Options{Threads: 2})
	roughen(e, 7)
	var lengths []int
	for i := range 60 {
		lengths = append(lengths, 2+i%79)
	}
	data := randomData(c, lengths, 8)
	whole, err := e.ForwardBackward(context.Background(), data, engine.Loss{Kind: engine.CrossEntropy})
	if err != nil {
		t.Fatal(err)
	}
	g := slices.Clone(e.gradients)
	e.dropGradients()
	var loss float64
	for i := range data {
		res, err := e.ForwardBackward(context.Background(), data[i:i+1], engine.Loss{Kind: engine.CrossEntropy})
		if err != nil {
			t.Fatal(err)
		}
		loss += res.Loss
		if !slices.Equal(res.Logprobs[0], whole.Logprobs[i]) {
			t.Fatalf("datum %d: logprobs differ from those in the batch", i)
		}
	}
	if d := loss - whole.Loss; d > 1e-6 || d < -1e-6 {
		t.Errorf("loss %g in parts, %g as one", loss, whole.Loss)
	}
	for i := range g {
		if d := g[i] - e.gradients[i]; d > 1e-3 || d < -1e-3 {
			t.Fatalf("gradient %d: %g in parts, %g as one", i, e.gradients[i], g[i])
		}
	}
}

// Logits against the float64 reference at every position.
func TestLogitsMatchReference(t *testing.T) {
	for _, kv := range []int{1, 2, 4} {
		c := small()
		c.KVHeads = kv
		e := open(t, c, Options{Threads: 1})
		roughen(e, 9)
		tokens := randomData(c, []int{c.MaxContext}, 3)[0].Tokens
		want := newReference(e.shape, e.state.weights).logits(tokens)
		got, err := e.Logits(tokens)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			for j := range want[i] {
				if d := float64(got[i][j]) - want[i][j]; d > 1e-4 || d < -1e-4 {
					t.Fatalf("%d key heads, position %d, token %d: %g, want %g", kv, i, j, got[i][j], want[i][j])
				}
			}
		}
	}
	e := open(t, small(), Options{})
	for _, bad := range [][]int{{37}, {-1}, make([]int, 81)} {
		if _, err := e.Logits(bad); diag.KindOf(err) != diag.KindData {
			t.Errorf("%d tokens: %v", len(bad), err)
		}
	}
}

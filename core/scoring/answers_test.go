package scoring

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// parrot is a Model that repeats the question's last message and counts.
type parrot struct {
	calls atomic.Int64
	fail  error
}

func (p *parrot) Complete(_ context.Context, q *sdk.ModelRequest) (*Answer, error) {
	p.calls.Add(1)
	if p.fail != nil {
		return nil, p.fail
	}
	return &Answer{Texts: []string{q.Messages[len(q.Messages)-1].Content}, PromptTokens: 3, Cost: 1}, nil
}

func ask(text string, change ...func(*sdk.ModelRequest)) *sdk.ModelRequest {
	q := &sdk.ModelRequest{Messages: []sdk.ModelMessage{{Role: "user", Content: text}}}
	for _, c := range change {
		c(q)
	}
	return q
}

func TestAnswersAreKept(t *testing.T) {
	seeded := func(q *sdk.ModelRequest) { q.Temperature, q.Seed = 1, 4 }
	for _, tt := range []struct {
		name string
		q    *sdk.ModelRequest
		kept bool
	}{
		{"greedy", ask("x"), true},
		{"seeded", ask("x", seeded), true},
		{"neither", ask("x", func(q *sdk.ModelRequest) { q.Temperature = 1 }), false},
		{"an empty text", ask(""), true},
	} {
		for name, dir := range map[string]string{"memory": "", "folder": t.TempDir()} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				p := &parrot{}
				a := KeepAnswers(p, "m", AnswersOptions{Dir: dir})
				first, err := a.Complete(t.Context(), tt.q)
				if err != nil || first.Cached || first.Cost != 1 || first.PromptTokens != 3 {
					t.Fatalf("%+v, %v", first, err)
				}
				if dir != "" { // as another process would
					a = KeepAnswers(p, "m", AnswersOptions{Dir: dir})
				}
				second, err := a.Complete(t.Context(), tt.q)
				if err != nil {
					t.Fatal(err)
				}
				want := *first
				if tt.kept {
					want = Answer{Texts: first.Texts, Cached: true}
				}
				if d := cmp.Diff(&want, second); d != "" {
					t.Error(d)
				}
				if n := p.calls.Load(); (n == 1) != tt.kept {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
}

func TestForgottenAnswersAreAskedForAgain(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			p := &parrot{}
			a := KeepAnswers(p, "m", AnswersOptions{Dir: dir})
			a.Forget(ask("x")) // nobody has asked
			for _, text := range []string{"x", "y"} {
				if _, err := a.Complete(t.Context(), ask(text)); err != nil {
					t.Fatal(err)
				}
			}
			a.Forget(ask("x"))
			if a.size != len(a.order.Front().Value.(*remembered).data)+128 {
				t.Errorf("%d bytes are kept", a.size)
			}
			if dir != "" {
				a = KeepAnswers(p, "m", AnswersOptions{Dir: dir})
			}
			for _, want := range []struct {
				text   string
				cached bool
			}{{"x", false}, {"x", true}, {"y", true}} {
				if got, err := a.Complete(t.Context(), ask(want.text)); err != nil || got.Texts[0] != want.text || got.Cached != want.cached {
					t.Errorf("%s: %+v, %v", want.text, got, err)
				}
			}
			random := ask("x", func(q *sdk.ModelRequest) { q.Temperature = 1 })
			a.Forget(random)
			if n := p.calls.Load(); n != 3 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func TestAnswersDependOnTheWholeQuestion(t *testing.T) {
	dir, p := t.TempDir(), &parrot{}
	questions := []*sdk.ModelRequest{
		ask("x"), ask("y"),
		ask("x", func(q *sdk.ModelRequest) { q.Messages[0].Role = "system" }),
		ask("x", func(q *sdk.ModelRequest) { q.MaxTokens = 1 }),
		ask("x", func(q *sdk.ModelRequest) { q.Seed = 1 }),
		ask("x", func(q *sdk.ModelRequest) { q.Seed, q.Temperature = 1, 1 }),
		ask("x", func(q *sdk.ModelRequest) { q.N = 2 }),
	}
	for _, model := range []string{"m", "n"} {
		a := KeepAnswers(p, model, AnswersOptions{Dir: dir})
		for _, q := range questions {
			if got, err := a.Complete(t.Context(), q); err != nil || got.Cached {
				t.Errorf("%s %+v: %+v, %v", model, q, got, err)
			}
		}
	}
	if n := p.calls.Load(); n != int64(2*len(questions)) {
		t.Errorf("asked %d times", n)
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	p := &parrot{fail: errors.New("no connection")}
	a := KeepAnswers(p, "m", AnswersOptions{Dir: t.TempDir()})
	if _, err := a.Complete(t.Context(), ask("x")); !errors.Is(err, p.fail) {
		t.Error(err)
	}
	p.fail = nil
	if got, err := a.Complete(t.Context(), ask("x")); err != nil || got.Cached {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whoever gives up gets an error of the model's kind, and the answer under way is
// still the others'.
func TestGivingUpOnAnAnswer(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	a := KeepAnswers(completer(func(*sdk.ModelRequest) (*Answer, error) {
		close(started)
		<-release
		return &Answer{Texts: []string{"x"}}, nil
	}), "m", AnswersOptions{})
	first := make(chan error, 1)
	go func() { _, err := a.Complete(t.Context(), ask("x")); first <- err }()
	<-started
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := a.Complete(ctx, ask("x")); !errors.Is(err, why) || diag.KindOf(err) != diag.KindJudge || err.Error() != "ask model: m: waiting for the answer: enough" {
		t.Error(err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestAnswersAtOnce(t *testing.T) {
	dir, p := t.TempDir(), &parrot{}
	var wg sync.WaitGroup
	for range 4 { // as many processes
		a := KeepAnswers(p, "m", AnswersOptions{Dir: dir})
		for i := range 40 {
			wg.Go(func() {
				text := string(rune('a' + i%5))
				if got, err := a.Complete(t.Context(), ask(text)); err != nil || got.Texts[0] != text {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
	}
	wg.Wait()
	if n := p.calls.Load(); n < 5 || n > 20 {
		t.Errorf("asked %d times, want each of 5 questions once a process at most", n)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", unfinished)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUnreadableAnswersAreAskedForAgain(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "half": `{"model":"m","te`, "no text": `{"model":"m","texts":[]}`, "another model's": `{"model":"n","texts":["z"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, p := t.TempDir(), &parrot{}
			fresh := func() *Answer {
				a, err := KeepAnswers(p, "m", AnswersOptions{Dir: dir}).Complete(t.Context(), ask("x"))
				if err != nil || a.Texts[0] != "x" {
					t.Fatalf("%+v, %v", a, err)
				}
				return a
			}
			fresh()
			files, _ := filepath.Glob(filepath.Join(dir, "??", "*.json"))
			if len(files) != 1 {
				t.Fatal(files)
			}
			if err := os.WriteFile(files[0], []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if fresh().Cached || !fresh().Cached {
				t.Error("want it asked for once more, and then kept")
			}
		})
	}
}

func TestAFolderThatCannotBeWrittenLosesNoAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a := KeepAnswers(&parrot{}, "m", AnswersOptions{Dir: file})
	if got, err := a.Complete(t.Context(), ask("x")); err != nil || got.Texts[0] != "x" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHalfWrittenAnswersAreSwept(t *testing.T) {
	dir := t.TempDir()
	old, young := filepath.Join(dir, "ab", ".new-1"), filepath.Join(dir, "ab", ".new-2")
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{old, young} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	KeepAnswers(&parrot{}, "m", AnswersOptions{Dir: dir})
	if _, err := os.Stat(old); err == nil {
		t.Error("an old one is left")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("a young one may be another process's", err)
	}
}

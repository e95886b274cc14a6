package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/transcript"
	"github.com/valence-rl/valence/sdk"
)

func voice(t *testing.T, texts ...string) (*bpe.Tokenizer, *renderer) {
	t.Helper()
	tok, err := chat.Train(slices.Values(append(texts, "mend it ls -l a.py Done. Error")), 300, 128)
	if err != nil {
		t.Fatal(err)
	}
	v, err := chat.New(tok)
	if err != nil {
		t.Fatal(err)
	}
	return tok, &renderer{voice: v, digest: tok.Digest(), vocabulary: tok.Size(), context: 0.25, room: 128}
}

// spelt writes a sample with the tokens to be learnt in brackets.
func spelt(tok *bpe.Tokenizer, x sample) string {
	var b strings.Builder
	in := false
	for i, id := range x.tokens {
		on := i > 0 && x.weights[i-1] == 1
		if on != in {
			b.WriteString(map[bool]string{true: "[", false: "]"}[on])
			in = on
		}
		b.WriteString(tok.Decode([]int{id}))
	}
	if in {
		b.WriteString("]")
	}
	return b.String()
}

func TestRender(t *testing.T) {
	tok, _ := voice(t)
	ls := policy.Turn{Call: &policy.Call{Tool: "bash", Arguments: map[string]string{"command": "ls"}}}
	beside := policy.Turn{Text: "I look", Call: ls.Call}
	done := policy.Turn{Text: "Done."}
	of := func(turns ...policy.Turn) *transcript.Transcript {
		x := &transcript.Transcript{Prompt: "mend it"}
		for _, turn := range turns {
			x.Turns = append(x.Turns, transcript.Turn{Turn: turn, Observation: "a.py"})
		}
		return x
	}
	for _, tt := range []struct {
		name string
		t    *transcript.Transcript
		want string // or the beginning of the error, after "!"
	}{
		{"a call", of(ls, done), "<|user|>mend it<|end|><|assistant|>[<|bash|>ls<|end|>]<|tool|>a.py<|end|><|assistant|>[Done.<|end|>]"},
		{"text beside a call", of(beside, done), "<|user|>mend it<|end|><|assistant|>[<|bash|>ls<|end|>]<|tool|>a.py<|end|><|assistant|>[Done.<|end|>]"},
		{"a turn that could not be read", of(policy.Turn{Text: "ls", Malformed: "why"}, done), "<|user|>mend it<|end|><|assistant|>ls<|end|><|tool|>a.py<|end|><|assistant|>[Done.<|end|>]"},
		{"cut", of(ls, policy.Turn{Text: "on and", Full: true}), "<|user|>mend it<|end|><|assistant|>[<|bash|>ls<|end|>]<|tool|>a.py<|end|><|assistant|>"},
		{"never submitted", of(ls), "<|user|>mend it<|end|><|assistant|>[<|bash|>ls<|end|>]"},
		{"nothing learnt", of(policy.Turn{Full: true}), "!no turn to learn from"},
		{"too long", of(ls, policy.Turn{Text: strings.Repeat("Q7", 80)}), "!longer than policy.max_context, 128 tokens"},
		{"what the chat cannot write", of(policy.Turn{Call: &policy.Call{Tool: "str_replace", Arguments: map[string]string{"command": "view"}}}, done), "!turn 1: check turn: str_replace: argument path is missing"},
	} {
		_, r := voice(t)
		got, err := r.render(tt.t)
		if why, ok := strings.CutPrefix(tt.want, "!"); ok {
			if err == nil || !strings.HasPrefix(err.Error(), why) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", tt.name, got, err)
			continue
		}
		if d := cmp.Diff(tt.want, spelt(tok, got[0])); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
		for i, w := range got[0].weights {
			if w != 1 && w != 0.25 {
				t.Errorf("%s: weight %g of token %d", tt.name, w, i)
			}
		}
		if want := strings.Count(tt.name, "beside"); r.asides != want {
			t.Errorf("%s: %d asides", tt.name, r.asides)
		}
	}
}

// Token ids are used where they are of the same tokenizer, and text is rendered where
// they are not.
func TestRenderByTokens(t *testing.T) {
	tok, r := voice(t)
	end, _ := tok.Special(chat.End)
	odd := append(append(tok.Encode("Do"), tok.Encode("ne.")...), end) // not how the tokenizer would
	x := &transcript.Transcript{
		Prompt: "mend it", Turns: []transcript.Turn{{Turn: policy.Turn{Text: "Done."}}}, Tokenizer: tok.Digest(),
		Sequences: []transcript.Sequence{{Tokens: append(r.voice.Start("", "mend it"), odd...)}},
	}
	q := &x.Sequences[0]
	q.Learnt = make([]bool, len(q.Tokens))
	for i := range odd {
		q.Learnt[len(q.Learnt)-1-i] = true
	}
	got, err := r.render(x)
	if err != nil || r.byTokens != 1 || !slices.Equal(got[0].tokens, q.Tokens) || spelt(tok, got[0]) != "<|user|>mend it<|end|><|assistant|>[Done.<|end|>]" {
		t.Errorf("%v, %v", got, err)
	}
	q.Tokens[0] = tok.Size()
	if _, err := r.render(x); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("token id %d, and the tokenizer has %[1]d tokens", tok.Size())) {
		t.Error(err)
	}
	other, r := voice(t, "some other text that makes other merges merges merges")
	if other.Digest() == tok.Digest() {
		t.Fatal("two tokenizers have one digest")
	}
	if got, err := r.render(x); err != nil || r.byTokens != 0 || spelt(other, got[0]) != "<|user|>mend it<|end|><|assistant|>[Done.<|end|>]" {
		t.Errorf("%v, %v", got, err)
	}
}

// imitating is a configuration that learns from the given files.
func imitating(t *testing.T, files ...string) *config.Config {
	t.Helper()
	return &config.Config{
		Run:    config.Run{Name: "tiny", Seed: 1, Dir: t.TempDir()},
		Policy: config.Policy{Kind: "engine", Path: filepath.Join(t.TempDir(), "policy"), MaxContext: 128, Threads: 1},
		SFT: config.SFT{Trajectories: files, Epochs: 1, Batch: 2, LearningRate: 1e-3, ContextWeight: 0.3, TokenizerSize: 300,
			Hidden: 16, Layers: 1, Heads: 2, KVHeads: 2, HeadDim: 8, Intermediate: 16},
		Rollout: config.Rollout{Concurrency: 2},
	}
}

// From the stored episodes to each form and back to samples: the same tokens with the same
// marks, whether they come with token ids or without.
func TestFormsGiveTheSameSamples(t *testing.T) {
	tok, r := voice(t)
	var episodes []*journal.Episode
	for i := range 4 {
		tr := &rollout.Trajectory{ID: fmt.Sprint("e", i), Task: &sdk.Task{Key: fmt.Sprint("k/", i), Prompt: "mend it"}, Policy: "p", End: rollout.Submitted, Turns: []rollout.Turn{
			{Turn: policy.Turn{Text: "?", Malformed: "no call"}, Observation: "Error: no call"},
			{Turn: policy.Turn{Call: &policy.Call{ID: "c", Tool: "bash", Arguments: map[string]string{"command": "ls"}}}, Observation: "a.py"},
			{Turn: policy.Turn{Text: fmt.Sprint("Done ", i)}},
		}}
		if i%2 == 1 {
			tr.Tokenizer = tok.Digest()
			context := r.voice.Start("", "mend it")
			for j := range tr.Turns {
				turn := &tr.Turns[j]
				turn.Context, turn.Tokens = slices.Clone(context), r.voice.Reply(policy.Turn{Text: turn.Text, Call: turn.Call})
				turn.Logprobs, turn.Versions = make([]float32, len(turn.Tokens)), make([]int, len(turn.Tokens))
				context = slices.Concat(turn.Context, turn.Tokens, r.voice.Observe(turn.Observation))
			}
		}
		episodes = append(episodes, &journal.Episode{ID: tr.ID, Task: tr.Task.Key, Skill: "s", Outcome: journal.Scored, Score: 1, End: "submitted", Trajectory: tr.ATIF()})
	}
	dir := t.TempDir()
	files := map[string]string{"stored": filepath.Join(dir, "s.episodes.jsonl.zst")}
	err := journal.WriteEpisodes(files["stored"], func(yield func(*journal.Episode, error) bool) {
		for _, e := range episodes {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for form, name := range map[string]string{"messages": "m.jsonl", "atif": "a.jsonl", "parquet": "p.parquet"} {
		files[form] = filepath.Join(dir, name)
		w, err := transcript.Create(form, files[form], false)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range episodes {
			if err := w.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	samples := func(form string) (out []sample, byTokens int) {
		_, r := voice(t)
		s := bare(imitating(t, files[form]), Options{})
		all, err := s.given()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			more, err := r.render(d.Transcript)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, more...)
		}
		return out, r.byTokens
	}
	want, n := samples("stored")
	if len(want) != 4 || n != 2 || !slices.Equal(want[0].weights, want[2].weights) || spelt(tok, want[0]) != strings.ReplaceAll(spelt(tok, want[1]), "1", "0") {
		t.Fatalf("%d by tokens: %s", n, spelt(tok, want[1]))
	}
	for form := range files {
		got, n := samples(form)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); d != "" || n != 2 {
			t.Errorf("%s: %d by tokens: %s", form, n, d)
		}
	}
}

// A cold start from files names what it leaves out and where, and goes on only with the
// trajectories that it began with.
func TestImitate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	line := func(last string) string {
		b, _ := json.Marshal(last)
		return `{"messages":[{"role":"user","content":"mend it"},{"role":"assistant","content":` + string(b) + `}]}` + "\n"
	}
	write := func(lines ...string) {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(line("Done."), line(strings.Repeat("x7", 200)), line("Done too."), "\n", line("Done again."))
	cfg := imitating(t, path)
	var warned []string
	o := Options{Observe: func(e Event) {
		if e.Kind == Warned {
			warned = append(warned, e.Text)
		}
	}}
	got, err := Imitate(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]LeftOut{{Where: path + ", line 2", Why: "longer than policy.max_context, 128 tokens"}}, got.LeftOut); d != "" {
		t.Error(d)
	}
	if got.Trajectories != 3 || got.Sequences != 3 || got.ByTokens != 0 || got.Learnt == 0 || got.Learnt >= got.Tokens {
		t.Errorf("%+v", got)
	}
	if want := "left out 1 of 4 trajectories, such as " + path + ", line 2: longer than policy.max_context, 128 tokens"; len(warned) != 1 || warned[0] != want {
		t.Errorf("%q", warned)
	}
	if _, err := bpe.Load(cfg.Policy.Path); err != nil {
		t.Error(err)
	}
	if _, err := Imitate(t.Context(), cfg, o); err != nil {
		t.Errorf("again: %v", err)
	}
	write(line("Done."), line("Done too."), line("Done twice."))
	if _, err := Imitate(t.Context(), cfg, o); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "has learnt from other trajectories so far") {
		t.Error(err)
	}
	write(line("Done."), `{"messages":[{"role":"user"},{"role":"assistant","content":7}]}`+"\n", "{\n")
	_, err = Imitate(context.Background(), cfg, o)
	for _, want := range []string{path + ", line 2: messages[1].content: neither text nor a list of parts", path + ", line 3: byte"} {
		if diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

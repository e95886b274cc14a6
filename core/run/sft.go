package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/sdk"
)

// Demonstration is a trajectory that scored 1, as text.
type Demonstration struct {
	Task   string   `json:"task"`
	System string   `json:"system,omitempty"`
	Prompt string   `json:"prompt"`
	Turns  []Spoken `json:"turns"`
}

// Spoken is one turn and the answer it got.
type Spoken struct {
	Text        string       `json:"text,omitempty"`
	Call        *policy.Call `json:"call,omitempty"`
	Observation string       `json:"observation,omitempty"`
}

// ColdStart makes a policy by supervised training on verified demonstrations
// (ALGORITHMS 5): it plays the expert on the training tasks of every skill, keeps
// what the skill's evaluator scores 1, trains a tokenizer if the policy folder has
// none, and trains on the policy's own tokens. It writes the policy folder when it
// is done. Killed, it goes on from the demonstrations and the checkpoint it has.
func (s *Setup) ColdStart(ctx context.Context) error {
	cfg := s.Config
	if err := s.trainable(); err != nil {
		return err
	}
	dir := journal.Dir(filepath.Join(cfg.Run.Dir, cfg.Run.Name))
	var expert policy.Policy = policy.Oracle()
	if cfg.SFT.Expert == "scripted" {
		var err error
		if expert, err = s.Expert(); err != nil {
			return err
		}
	}
	var all []Demonstration
	for _, k := range s.Skills {
		if k.Weight == 0 {
			continue
		}
		d, err := s.demonstrate(ctx, dir, k, expert)
		if err != nil {
			return err
		}
		all = append(all, d...)
	}
	tok, err := s.tokenizer(all)
	if err != nil {
		return err
	}
	return s.imitate(ctx, dir, tok, all)
}

// shard is how many records are demonstrated between two writes.
const shard = 512

// demonstrate collects one skill's verified demonstrations, at most one a task.
func (s *Setup) demonstrate(ctx context.Context, dir journal.Dir, k *Skill, expert policy.Policy) ([]Demonstration, error) {
	want := s.Config.SFT.PerSkill
	b := k.Binding()
	var kept []Demonstration
	for lo := 0; lo < len(k.records) && len(kept) < want; lo += shard {
		name := dir.Path("sft", fmt.Sprintf("%s-%06d.jsonl.zst", k.Name, lo))
		if d, err := readDemonstrations(name); err == nil {
			kept = append(kept, d...)
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		tasks, err := s.build(ctx, b, k.records[lo:min(lo+shard, len(k.records))])
		if err != nil {
			return nil, err
		}
		got := make([]*Demonstration, len(tasks))
		var mu sync.Mutex
		done := 0
		err = each(ctx, len(tasks), s.Concurrency(), func(ctx context.Context, i int) error {
			id := fmt.Sprintf("sft-%s-%d", k.Name, lo+i)
			var e *Played
			var err error
			for attempt := 0; attempt <= s.Config.Async.Retries; attempt++ {
				e, err = s.Player.Play(ctx, expert, b, tasks[i], id, seedOf(s.Config.Run.Seed, "expert", tasks[i].Key))
				if err == nil || ctx.Err() != nil {
					break
				}
			}
			if err != nil {
				return err
			}
			if e.Score == 1 && e.End == string(rollout.Submitted) {
				got[i] = spoken(tasks[i], e.Trajectory)
			}
			mu.Lock()
			done++
			s.observe(Event{Kind: Finished, Text: "demonstrations " + k.Name, Done: len(kept) + done, Total: want})
			mu.Unlock()
			return nil
		})
		if err != nil {
			return nil, err
		}
		var fresh []Demonstration
		for _, d := range got {
			if d != nil {
				fresh = append(fresh, *d)
			}
		}
		if err := writeDemonstrations(name, fresh); err != nil {
			return nil, err
		}
		kept = append(kept, fresh...)
	}
	if len(kept) < want {
		s.observe(Event{Kind: Warned, Text: fmt.Sprintf("%s: %d demonstrations of the %d asked for; raise the count of its sources", k.Name, len(kept), want)})
	}
	if len(kept) == 0 {
		return nil, diag.Errorf(diag.KindData, "demonstrate", k.Name, "the expert scored 1 on none of the tasks of %d records", len(k.records))
	}
	return kept[:min(want, len(kept))], nil
}

func spoken(t *sdk.Task, tr *rollout.Trajectory) *Demonstration {
	d := &Demonstration{Task: t.Key, System: t.System, Prompt: t.Prompt}
	for _, turn := range tr.Turns {
		d.Turns = append(d.Turns, Spoken{Text: turn.Text, Call: turn.Call, Observation: turn.Observation})
	}
	return d
}

func writeDemonstrations(path string, ds []Demonstration) error {
	fail := func(err error) error { return diag.Wrap(diag.KindData, "write demonstrations", path, err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	z, err := zstd.NewWriter(f)
	if err != nil {
		return fail(err)
	}
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	for i := range ds {
		if err := enc.Encode(&ds[i]); err != nil {
			return fail(err)
		}
	}
	if err := errors.Join(z.Close(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fail(err)
	}
	return fail(os.Rename(f.Name(), path))
}

func readDemonstrations(path string) ([]Demonstration, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read demonstrations", path, err)
	}
	defer z.Close()
	dec := json.NewDecoder(bufio.NewReader(z))
	var out []Demonstration
	for {
		var d Demonstration
		err := dec.Decode(&d)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, diag.Errorf(diag.KindData, "read demonstrations", path, "%w; remove the file and it is made again", err)
		}
		out = append(out, d)
	}
}

// tokenizer is that of the policy folder, or a new one trained on the demonstrations.
func (s *Setup) tokenizer(ds []Demonstration) (*bpe.Tokenizer, error) {
	if _, err := os.Stat(filepath.Join(s.Config.Policy.Path, "tokenizer.json")); err == nil {
		return bpe.Load(s.Config.Policy.Path)
	}
	s.observe(Event{Kind: Opening, Text: "tokenizer"})
	var texts []string
	// A fifth of the demonstrations is text enough for a small vocabulary.
	for i := 0; i < len(ds); i += 5 {
		texts = append(texts, ds[i].Prompt)
		for _, t := range ds[i].Turns {
			texts = append(texts, t.Text, t.Observation)
			if t.Call != nil {
				for _, k := range sortedKeys(t.Call.Arguments) {
					texts = append(texts, t.Call.Arguments[k])
				}
			}
		}
	}
	return chat.Train(slices.Values(texts), s.Config.SFT.TokenizerSize, s.Config.Policy.MaxContext)
}

// example is a demonstration as tokens.
type example struct {
	tokens  []int
	weights []float32 // of the targets, before normalisation
}

func render(c policy.Chat, d *Demonstration, contextWeight float32) example {
	var e example
	add := func(ids []int, w float32) {
		for _, id := range ids {
			e.tokens = append(e.tokens, id)
			e.weights = append(e.weights, w)
		}
	}
	add(c.Start(d.System, d.Prompt), contextWeight)
	for i, t := range d.Turns {
		add(c.Reply(policy.Turn{Text: t.Text, Call: t.Call}), 1)
		if i < len(d.Turns)-1 {
			add(c.Observe(t.Observation), contextWeight)
		}
	}
	e.weights = e.weights[1:]
	return e
}

// imitate trains on the demonstrations and writes the policy folder.
func (s *Setup) imitate(ctx context.Context, dir journal.Dir, tok *bpe.Tokenizer, ds []Demonstration) error {
	c := s.Config.SFT
	voice, err := chat.New(tok)
	if err != nil {
		return err
	}
	var examples []example
	long := 0
	for i := range ds {
		e := render(voice, &ds[i], float32(c.ContextWeight))
		if len(e.tokens) > s.Config.Policy.MaxContext {
			long++
			continue
		}
		examples = append(examples, e)
	}
	if long > 0 {
		s.observe(Event{Kind: Warned, Text: fmt.Sprintf("%d of %d demonstrations exceed max_context and are left out", long, len(ds))})
	}
	at := dir.Path("cold-start")
	if _, err := os.Stat(filepath.Join(at, "config.json")); err != nil {
		if err := s.freshPolicy(at, tok); err != nil {
			return err
		}
	}
	m, err := s.openModel(at, tok)
	if err != nil {
		return err
	}
	perEpoch := len(examples) / c.Batch
	if perEpoch == 0 {
		return diag.Errorf(diag.KindConfig, "imitate", "", "%d demonstrations do not fill a batch of %d", len(examples), c.Batch)
	}
	total := perEpoch * c.Epochs
	order := make([]int, len(examples))
	epoch := -1
	loss := math.NaN()
	for step := m.Engine.Info().Version; step < total; step++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if e := step / perEpoch; e != epoch {
			epoch = e
			for i := range order {
				order[i] = i
			}
			r := rand.New(rand.NewPCG(seedOf(s.Config.Run.Seed, "epoch", e), 0))
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		batch := order[step%perEpoch*c.Batch:][:c.Batch]
		var sum float32
		for _, i := range batch {
			for _, w := range examples[i].weights {
				sum += w
			}
		}
		data := make([]engine.Datum, len(batch))
		for j, i := range batch {
			w := slices.Clone(examples[i].weights)
			for t := range w {
				w[t] /= sum
			}
			data[j] = engine.Datum{Tokens: examples[i].tokens, Weights: w}
		}
		r, err := m.Engine.ForwardBackward(ctx, data, engine.Loss{Kind: engine.CrossEntropy})
		if err != nil {
			return diag.Wrap(diag.KindPolicy, "imitate", "", err)
		}
		if _, err := m.Engine.OptimStep(ctx, engine.AdamParams{
			LearningRate: c.LearningRate * schedule(step, c.Warmup, total), Beta2: 0.98, WeightDecay: c.WeightDecay, ClipNorm: 1,
		}); err != nil {
			return diag.Wrap(diag.KindPolicy, "imitate", "", err)
		}
		if loss = 0.98*loss + 0.02*r.Loss; math.IsNaN(loss) {
			loss = r.Loss
		}
		s.observe(Event{Kind: Learning, Text: "cold start", Done: step + 1, Total: total, Loss: loss})
		if (step+1)%500 == 0 && step+1 < total {
			if err := m.Engine.Save(at); err != nil {
				return err
			}
		}
	}
	if err := m.Engine.Save(at); err != nil {
		return err
	}
	return s.publish(at, tok, voice)
}

// schedule is a linear warm-up and then a cosine down to a twentieth.
func schedule(step, warmup, total int) float64 {
	up := 1.0
	if step < warmup {
		up = float64(step+1) / float64(warmup)
	}
	return up * (0.05 + 0.95*0.5*(1+math.Cos(math.Pi*float64(step)/float64(total))))
}

func (s *Setup) freshPolicy(at string, tok *bpe.Tokenizer) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return diag.Wrap(diag.KindPolicy, "create policy", at, err)
	}
	c := s.Config.SFT
	end, _ := tok.Special(chat.End)
	pad, _ := tok.Special(chat.Pad)
	return gorgonia.Create(at, gorgonia.Config{
		Vocab: tok.Size(), Hidden: c.Hidden, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Intermediate: c.Intermediate, MaxContext: s.Config.Policy.MaxContext, RopeTheta: 10000, RMSEps: 1e-6,
		EOS: end, Pad: pad, BOS: pad,
	}, seedOf(s.Config.Run.Seed, "weights"))
}

// publish copies the trained policy, without optimizer state, to its folder.
func (s *Setup) publish(from string, tok *bpe.Tokenizer, voice policy.Chat) error {
	to := journal.Dir(s.Config.Policy.Path)
	if err := os.MkdirAll(string(to), 0o755); err != nil {
		return diag.Wrap(diag.KindPolicy, "write policy", string(to), err)
	}
	for _, name := range []string{"config.json", "generation_config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return diag.Wrap(diag.KindPolicy, "write policy", string(to), err)
		}
		if err := to.WriteFile(name, b); err != nil {
			return err
		}
	}
	if err := tok.Save(string(to)); err != nil {
		return diag.Wrap(diag.KindPolicy, "write policy", string(to), err)
	}
	s.observe(Event{Kind: Saved, Text: string(to)})
	return nil
}

package run

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/transcript"
)

// Imitated is what a policy was made from.
type Imitated struct {
	Policy       string    `json:"policy"`       // folder
	Trajectories int       `json:"trajectories"` // learnt from
	ByTokens     int       `json:"by_tokens"`    // of those, by the token ids they came with; the others were rendered
	Sequences    int       `json:"sequences"`
	Tokens       int       `json:"tokens"`
	Learnt       int       `json:"learnt"` // of those, the policy's own
	Asides       int       `json:"asides"` // turns whose text beside a call was left out
	LeftOut      []LeftOut `json:"left_out"`
}

// LeftOut is a trajectory that was not learnt from.
type LeftOut struct {
	Where string `json:"where"` // file and line, or the episode
	ID    string `json:"id,omitempty"`
	Why   string `json:"why"`
}

// demonstration is a trajectory to learn from, and where it stands.
type demonstration struct {
	*transcript.Transcript
	where string
}

// ColdStart makes a policy by supervised training on verified demonstrations
// (ALGORITHMS 5): it plays the expert on the training tasks of every skill, keeps
// what the skill's evaluator scores 1, trains a tokenizer if the policy folder has
// none, and trains on the policy's own tokens. It writes the policy folder when it
// is done. Killed, it goes on from the demonstrations and the checkpoint it has.
func (s *Setup) ColdStart(ctx context.Context) (*Imitated, error) {
	if err := s.trainable(); err != nil {
		return nil, err
	}
	all, err := s.demonstrate(ctx)
	if err != nil {
		return nil, err
	}
	return s.learnFrom(ctx, all)
}

// Imitate is ColdStart on the trajectories that [sft] trajectories names. Neither
// sandboxes nor plugins are opened. Trajectories that are not as they should be are
// errors of diag.KindData that name file, line and field, the first ten together; those
// that do not fit the context, or that the chat cannot write, are left out and told.
func Imitate(ctx context.Context, cfg *config.Config, o Options) (im *Imitated, err error) {
	s := bare(cfg, o)
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.trainable(); err != nil {
		return nil, err
	}
	all, err := s.given()
	if err != nil {
		return nil, err
	}
	return s.learnFrom(ctx, all)
}

func (s *Setup) learnFrom(ctx context.Context, all []demonstration) (*Imitated, error) {
	unlock, err := lock(s.runDir())
	if err != nil {
		return nil, err
	}
	defer unlock()
	tok, err := s.tokenizer(all)
	if err != nil {
		return nil, err
	}
	voice, err := chat.New(tok)
	if err != nil {
		return nil, err
	}
	im := &Imitated{Policy: s.Config.Policy.Path, LeftOut: []LeftOut{}}
	r := renderer{voice: voice, digest: tok.Digest(), vocabulary: tok.Size(), context: float32(s.Config.SFT.ContextWeight), room: s.Config.Policy.MaxContext}
	var samples []sample
	for _, d := range all {
		more, err := r.render(d.Transcript)
		if err != nil {
			im.LeftOut = append(im.LeftOut, LeftOut{d.where, d.ID, err.Error()})
			continue
		}
		im.Trajectories++
		im.Sequences += len(more)
		for _, x := range more {
			im.Tokens += len(x.tokens)
			im.Learnt += x.learnt
		}
		samples = append(samples, more...)
	}
	im.ByTokens, im.Asides = r.byTokens, r.asides
	s.tell(im)
	return im, s.imitate(ctx, tok, voice, samples)
}

// tell warns of what is not learnt from, by why.
func (s *Setup) tell(im *Imitated) {
	first, n := map[string]LeftOut{}, map[string]int{}
	for _, l := range im.LeftOut {
		if n[l.Why]++; n[l.Why] == 1 {
			first[l.Why] = l
		}
	}
	for _, why := range sortedKeys(n) {
		s.observe(Event{Kind: Warned, Text: fmt.Sprintf("left out %d of %d trajectories, such as %s: %s", n[why], im.Trajectories+len(im.LeftOut), first[why].Where, why)})
	}
	if im.Asides > 0 {
		s.observe(Event{Kind: Warned, Text: fmt.Sprintf("%d turns have text beside a call, which the brief chat cannot write; it is left out", im.Asides)})
	}
}

// demonstrate gathers the expert's verified demonstrations, at most one a task.
func (s *Setup) demonstrate(ctx context.Context) ([]demonstration, error) {
	var expert policy.Policy = policy.Oracle()
	if s.Config.SFT.Expert == "scripted" {
		var err error
		if expert, err = s.Expert(); err != nil {
			return nil, err
		}
	}
	dir := s.runDir().Path("sft")
	got, err := s.Gather(ctx, TrajectoryOptions{
		Policy: expert, Out: dir, PerSkill: s.Config.SFT.PerSkill, Tries: 1,
		Heard: func(g Gathering) {
			s.observe(Event{Kind: Finished, Text: "demonstrations", Done: g.Kept, Total: g.Want, Errors: g.Errors})
		},
	})
	if err != nil {
		return nil, err
	}
	var all []demonstration
	for _, k := range got.Skills {
		if k.Kept == 0 {
			return nil, diag.Errorf(diag.KindData, "demonstrate", k.Name, "the expert scored 1 on none of %d tasks", k.Tasks)
		}
		if k.Short() {
			s.observe(Event{Kind: Warned, Text: fmt.Sprintf("%s: %d demonstrations of the %d asked for; raise the count of its sources", k.Name, k.Kept, k.Want)})
		}
		file := filepath.Join(dir, k.Name+".episodes.jsonl.zst")
		for f := range transcript.Read(file) {
			if f.Err != nil {
				return nil, f.Err
			}
			all = append(all, demonstration{f.Transcript, f.Place.String()})
		}
	}
	return all, nil
}

// given reads the configured trajectories.
func (s *Setup) given() ([]demonstration, error) {
	const most = 10 // errors at once
	s.observe(Event{Kind: Opening, Text: "trajectories"})
	var all []demonstration
	var wrong []error
	below := 0
	for _, path := range s.Config.SFT.Trajectories {
		files, err := transcript.Files(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			for f := range transcript.Read(file) {
				switch {
				case f.Err != nil:
					if wrong = append(wrong, f.Err); len(wrong) == most {
						return nil, errors.Join(wrong...)
					}
				case !f.Stored, f.Lost == "" && f.Score != nil && *f.Score == 1 && f.End == string(rollout.Submitted):
					all = append(all, demonstration{f.Transcript, f.Place.String()})
				default:
					below++
				}
			}
		}
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	if below > 0 {
		s.observe(Event{Kind: Warned, Text: fmt.Sprintf("%d stored episodes did not score 1, or never submitted, and are left out; data trajectories export takes others", below)})
	}
	if len(all) == 0 {
		return nil, diag.Errorf(diag.KindData, "read trajectories", fmt.Sprint(s.Config.SFT.Trajectories), "none to learn from")
	}
	return all, nil
}

func (s *Setup) runDir() journal.Dir {
	return journal.Dir(filepath.Join(s.Config.Run.Dir, s.Config.Run.Name))
}

// tokenizer is that of the policy folder, or a new one trained on the demonstrations.
func (s *Setup) tokenizer(ds []demonstration) (*bpe.Tokenizer, error) {
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

// imitate trains on samples and writes the policy folder.
func (s *Setup) imitate(ctx context.Context, tok *bpe.Tokenizer, voice policy.Chat, samples []sample) error {
	c, dir := s.Config.SFT, s.runDir()
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
	perEpoch := len(samples) / c.Batch
	if perEpoch == 0 {
		return diag.Errorf(diag.KindConfig, "imitate", "", "%d demonstrations do not fill a batch of %d; lower [sft] batch", len(samples), c.Batch)
	}
	if err := sameSamples(dir, m.Engine.Info().Version, samples); err != nil {
		return err
	}
	total := perEpoch * c.Epochs
	order := make([]int, len(samples))
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
			for _, w := range samples[i].weights {
				sum += w
			}
		}
		data := make([]engine.Datum, len(batch))
		for j, i := range batch {
			w := slices.Clone(samples[i].weights)
			for t := range w {
				w[t] /= sum
			}
			data[j] = engine.Datum{Tokens: samples[i].tokens, Weights: w}
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

// samplesFile says what the weights in cold-start have learnt from.
const samplesFile = "cold-start.json"

// sameSamples refuses to go on with a cold start on other samples than it began with.
func sameSamples(dir journal.Dir, version int, samples []sample) error {
	h := sha256.New()
	for _, x := range samples {
		fmt.Fprintln(h, x.tokens, x.weights)
	}
	type begun struct {
		Samples string `json:"samples"` // digest
	}
	now := begun{fmt.Sprintf("sha256:%x", h.Sum(nil))}
	data, err := os.ReadFile(dir.Path(samplesFile))
	var then begun
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return diag.Wrap(diag.KindData, "imitate", dir.Path(samplesFile), err)
	case version == 0:
	case json.Unmarshal(data, &then) != nil || then != now:
		return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C064", Summary: fmt.Sprintf("the cold start in %s has learnt from other trajectories so far", dir),
			Hint: "choose another name with --set run.name=NAME, or remove the folder"}
	}
	return dir.WriteJSON(samplesFile, now)
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

package scoring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Evaluator is a loaded plugin with the evaluate role.
type Evaluator interface {
	Evaluate(ctx context.Context, h sdk.Host, r *sdk.EvaluateRequest) (*sdk.Verdict, error)
	Digest() string
}

// Judge is a loaded plugin with the judge role.
type Judge interface {
	Judge(ctx context.Context, h sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error)
	Digest() string
}

// Scorer gives verdicts for one skill. It is safe for concurrent use if its parts are.
type Scorer struct {
	Skill       string
	Evaluator   Evaluator
	Judge       Judge // nil: the skill has none, and asking is an error
	Runner      Runner
	Model       Model         // nil: none is configured, and asking is an error
	Config      []sdk.Pair    // the evaluator's settings, by key
	JudgeConfig []sdk.Pair    // the judge's, by key
	Timeout     time.Duration // of one evaluation; default 5 min
	Log         *slog.Logger
}

// Score evaluates one output. It blocks until the verdict or the timeout. Every
// error is an infrastructure failure with a kind, never a score.
func (s *Scorer) Score(ctx context.Context, task *sdk.Task, out sdk.Output, seed uint64) (*sdk.Verdict, error) {
	return s.ScoreMetered(ctx, task, out, seed, nil)
}

// ScoreMetered is [Scorer.Score] that adds to m what the evaluator and its judge ask
// of the model, also where that leads to no verdict.
func (s *Scorer) ScoreMetered(ctx context.Context, task *sdk.Task, out sdk.Output, seed uint64, m *Meter) (*sdk.Verdict, error) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 5 * time.Minute
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := &services{scorer: s, judge: s.Judge != nil, meter: m}
	v, err := s.Evaluator.Evaluate(limited, h, &sdk.EvaluateRequest{
		Task: *task, Output: out, Config: s.Config, Seed: seed, Timeout: timeout.Milliseconds(),
	})
	if err != nil {
		h.forget(limited)
		return nil, diag.Wrap(diag.KindPlugin, "evaluate", task.Key, err)
	}
	return v, nil
}

// Building gives the services of a builder of this skill's tasks: sandboxes, the
// model and the log, no judge. What the model is asked is added to m. Its answers are
// kept whatever they are, so that the same records give the same tasks again.
func (s *Scorer) Building(m *Meter) sdk.Host { return &services{scorer: s, meter: m} }

// Digests names what makes this scorer's verdicts: the plugins by role, and under
// "settings" what the run's TOML says to them, if it says anything.
func (s *Scorer) Digests() map[string]string {
	d := map[string]string{"evaluate": s.Evaluator.Digest()}
	if s.Judge != nil {
		d["judge"] = s.Judge.Digest()
	}
	if len(s.Config)+len(s.JudgeConfig) > 0 {
		h := sha256.New()
		for _, p := range s.Config {
			fmt.Fprintf(h, "evaluate %q %q\n", p.Key, p.Value)
		}
		for _, p := range s.JudgeConfig {
			fmt.Fprintf(h, "judge %q %q\n", p.Key, p.Value)
		}
		d["settings"] = "sha256:" + hex.EncodeToString(h.Sum(nil))
	}
	return d
}

// services answers the capability calls of one evaluation or, with judge false, of a
// judge, which cannot ask another, or of a builder.
type services struct {
	scorer *Scorer
	judge  bool
	meter  *Meter // may be nil

	mu     sync.Mutex
	asked  []*sdk.ModelRequest // and answered
	failed bool                // a service gave no answer
}

// forget has the model's answers forgotten that led a plugin to an error and to no
// verdict, so that the next attempt asks anew. Where a service failed, or time was
// up, that is the reason, and the answers stay.
func (h *services) forget(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed || ctx.Err() != nil {
		return
	}
	for _, q := range h.asked {
		h.scorer.Model.Forget(q)
	}
}

// noted gives err, and remembers that a service failed.
func (h *services) noted(err error) error {
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failed = true
	}
	return err
}

func (h *services) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	out, err := h.scorer.Runner.Run(ctx, r)
	return out, h.noted(err)
}

func (h *services) Model(ctx context.Context, r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	if h.scorer.Model == nil {
		return nil, diag.Errorf(diag.KindConfig, "ask model", h.scorer.Skill, "no model is configured; set [model] base_url and name")
	}
	started := time.Now()
	a, err := h.scorer.Model.Complete(ctx, r)
	h.meter.count(a, time.Since(started))
	if h.noted(err) != nil {
		return nil, err
	}
	h.mu.Lock()
	h.asked = append(h.asked, r)
	h.mu.Unlock()
	return &sdk.ModelResponse{Texts: a.Texts}, nil
}

func (h *services) Ask(ctx context.Context, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	if !h.judge {
		return nil, diag.Errorf(diag.KindConfig, "ask judge", h.scorer.Skill, "no judge is configured; set [skills.%s] judge", h.scorer.Skill)
	}
	q := *r
	q.Config = h.scorer.JudgeConfig
	judge := &services{scorer: h.scorer, meter: h.meter}
	a, err := h.scorer.Judge.Judge(ctx, judge, &q)
	if h.noted(err) != nil {
		judge.forget(ctx)
		return nil, &diag.Error{Kind: diag.KindJudge, Op: "ask judge", Subject: h.scorer.Skill, Err: err}
	}
	return a, nil
}

func (h *services) Log(ctx context.Context, level, text string) {
	if h.scorer.Log == nil {
		return
	}
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	h.scorer.Log.Log(ctx, l, text, "skill", h.scorer.Skill)
}

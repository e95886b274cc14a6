// Package journal is the run directory on disk: what a run writes, and what
// reports, resumption and re-judging read. Layout, under runs/<name>/:
//
//	config.toml                    the resolved configuration
//	plugins.lock                   digests of the plugins used
//	state.json                     newest complete step; replaced by rename
//	steps/000041/episodes.jsonl.zst  one Episode a line
//	steps/000041/metrics.json        one Step
//	evals/000040-eval.json           one Eval
//	checkpoints/000040/              a policy folder with optimizer state
//	metrics.jsonl                  every Step, a line each
//	swaps.jsonl                    every Swap, a line each; absent without any
//	report.html  log.jsonl
//
// A step's folder appears by rename when the step is complete, so a reader never
// meets half a step.
package journal

import (
	"time"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/sdk"
)

// Outcome of an episode that has a score. Every other outcome is an error kind
// (diag.Kind) and has none.
const Scored = "scored"

// Episode is a trajectory with its verdict.
type Episode struct {
	ID            string            `json:"id"`       // unique in the run
	Step          int               `json:"step"`     // trainer step it was dispatched for; -1 in an evaluation
	Dispatch      int64             `json:"dispatch"` // the group's number, from 0, unique in the run; of gathered trajectories the task's
	Index         int               `json:"index"`    // within the group, or among the task's tries
	Attempt       int               `json:"attempt"`  // from 0; infrastructure failures are tried again
	Task          string            `json:"task"`     // key
	Skill         string            `json:"skill"`
	Meta          map[string]string `json:"meta,omitempty"` // of the task
	Policy        string            `json:"policy"`
	PolicyVersion int               `json:"policy_version"` // oldest version that sampled a token of it
	End           string            `json:"end"`            // submitted, max_context, max_steps, timeout, error
	Outcome       string            `json:"outcome"`        // Scored or an error kind
	Error         string            `json:"error,omitempty"`
	Score         float64           `json:"score"`
	Components    []sdk.Component   `json:"components,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	Reward        float64           `json:"reward"`
	Advantage     float64           `json:"advantage"`
	Filtered      bool              `json:"filtered,omitempty"` // masked by compact filtering
	Fate          string            `json:"fate,omitempty"`     // of its group: trained, stale, no_signal, filtered, failed
	Turns         int               `json:"turns"`
	PromptTokens  int               `json:"prompt_tokens"`       // of the last turn's context
	SampledTokens int               `json:"sampled_tokens"`      // by the policy, all turns
	Tools         map[string]int    `json:"tools,omitempty"`     // calls by "bash", "view", "create", "replace", "insert"
	TestRuns      int               `json:"test_runs,omitempty"` // bash calls that ran tests or scripts before submission
	Seconds       float64           `json:"seconds"`
	Model         *ModelUse         `json:"model,omitempty"`   // what its evaluation asked of the model
	Server        *ServerUse        `json:"server,omitempty"`  // what its policy took, if a server answered
	Plugins       map[string]string `json:"plugins,omitempty"` // role → digest that made the verdict
	Output        *sdk.Output       `json:"output,omitempty"`
	Trajectory    *atif.Trajectory  `json:"trajectory,omitempty"`
}

// Step is one optimizer update, or one attempt at it that had nothing to learn from.
type Step struct {
	Step    int       `json:"step"` // from 1
	Version int       `json:"version"`
	Time    time.Time `json:"time"`

	Loss         float64 `json:"loss"`          // of the surrogate, weights included; near 0 by construction before the first inner epoch
	ClipShare    float64 `json:"clip_share"`    // share of trained tokens whose gradient the clip removed
	Entropy      float64 `json:"entropy"`       // nats a token
	GradNorm     float64 `json:"grad_norm"`     // global norm before clipping
	LearningRate float64 `json:"learning_rate"` // after warm-up
	Ratio        float64 `json:"ratio"`         // mean importance ratio

	TrainedTokens int `json:"trained_tokens"` // unmasked
	Tokens        int `json:"tokens"`         // of all sequences trained on
	SampledTokens int `json:"sampled_tokens"` // by the policy in this step's episodes

	RolloutSeconds float64 `json:"rollout_seconds"` // that the trainer waited for groups
	TrainSeconds   float64 `json:"train_seconds"`   // of the update
	Seconds        float64 `json:"seconds"`         // of the whole step

	Skills map[string]*SkillStep `json:"skills"`           // by name
	Fates  map[string]int        `json:"fates"`            // groups that ended in this step, by fate
	Errors map[string]int        `json:"errors,omitempty"` // failed attempts, by kind; those retried included
	Model  *ModelUse             `json:"model,omitempty"`  // what evaluating this step's episodes asked of the model
}

// ModelUse is what evaluators and judges asked of the run's model, and what that took.
type ModelUse struct {
	Calls            int     `json:"calls"`             // questions put to the server
	Cached           int     `json:"cached"`            // questions answered from the cache, free of charge
	Failures         int     `json:"failures"`          // calls that ended without an answer, after all attempts
	PromptTokens     int64   `json:"prompt_tokens"`     // read by the model, as the server says
	CompletionTokens int64   `json:"completion_tokens"` // written by it
	Cost             float64 `json:"cost"`              // in the currency of [model] input_price and output_price
	LatencyMean      float64 `json:"latency_mean"`      // seconds from question to answer, over calls; waiting and further attempts included
	LatencyMax       float64 `json:"latency_max"`       // seconds
}

// Add counts v, which may be nil, into u.
func (u *ModelUse) Add(v *ModelUse) {
	if v == nil {
		return
	}
	if n := u.Calls + v.Calls; n > 0 {
		u.LatencyMean = (u.LatencyMean*float64(u.Calls) + v.LatencyMean*float64(v.Calls)) / float64(n)
	}
	u.Calls += v.Calls
	u.Cached += v.Cached
	u.Failures += v.Failures
	u.PromptTokens += v.PromptTokens
	u.CompletionTokens += v.CompletionTokens
	u.Cost += v.Cost
	u.LatencyMax = max(u.LatencyMax, v.LatencyMax)
}

// SkillStep is one skill's part of a step.
type SkillStep struct {
	Weight     float64        `json:"weight"`   // configured, normalised
	Realised   float64        `json:"realised"` // share of all groups dispatched so far
	Groups     int            `json:"groups"`
	Episodes   int            `json:"episodes"` // with a score
	Score      float64        `json:"score"`    // mean
	Kept       float64        `json:"kept"`     // share of groups with a signal
	AllZero    int            `json:"all_zero"` // groups
	AllOne     int            `json:"all_one"`
	Filtered   float64        `json:"filtered"` // share of episodes masked
	Ends       map[string]int `json:"ends"`
	Turns      float64        `json:"turns"`              // mean
	TurnTokens float64        `json:"turn_tokens"`        // mean sampled tokens of a turn
	TestRuns   float64        `json:"test_runs"`          // mean
	Excluded   int            `json:"excluded,omitempty"` // episodes lost to infrastructure failures after retries
}

// Eval is one evaluation of one policy on one split.
type Eval struct {
	Step    int         `json:"step"`  // 0: before training
	Split   string      `json:"split"` // "eval", "unseen", …
	Policy  string      `json:"policy"`
	Version int         `json:"version"`
	Runs    int         `json:"runs"` // k of Avg@k
	Time    time.Time   `json:"time"`
	Seconds float64     `json:"seconds"`
	Skills  []SkillEval `json:"skills"`
	Model   *ModelUse   `json:"model,omitempty"`  // what its episodes, failed attempts included, asked of the model
	Server  *ServerUse  `json:"server,omitempty"` // what its policy took, failed attempts included, if a server answered
}

// SkillEval is one skill's scores: Scores[i][j] is run j of the task Tasks[i].
// An excluded episode (infrastructure failure) is absent from its row.
type SkillEval struct {
	Name     string         `json:"name"`
	Tasks    []string       `json:"tasks"`
	Scores   [][]float64    `json:"scores"`
	Ends     map[string]int `json:"ends"`
	Excluded int            `json:"excluded,omitempty"`
}

// State is state.json.
type State struct {
	Step       int              `json:"step"`       // newest complete step
	Checkpoint int              `json:"checkpoint"` // step of the newest checkpoint
	Weights    string           `json:"weights"`    // sha256 of the checkpoint's model.safetensors
	Done       bool             `json:"done"`
	Time       time.Time        `json:"time"`
	Buffer     []byte           `json:"buffer"` // the buffer's own state
	Dispatched int64            `json:"dispatched"`
	Fates      map[string]int64 `json:"fates"` // of all groups dispatched so far
}

// Swap is one wish to change the plugin or the judge of a skill while the run was
// under way, and what became of it.
type Swap struct {
	Time     time.Time         `json:"time"`
	Step     int               `json:"step"`            // first that it holds in; of a refused one, that was under way
	Dispatch int64             `json:"dispatch"`        // first group of the skill that it holds for; -1: none
	Skill    string            `json:"skill,omitempty"` // absent when the TOML could not be read
	Role     string            `json:"role,omitempty"`  // evaluate or judge; absent when all were to be looked up anew
	From     string            `json:"from,omitempty"`  // digest
	To       string            `json:"to,omitempty"`    // digest; absent when it was not found
	Ref      string            `json:"ref,omitempty"`   // what was asked for
	By       string            `json:"by"`              // file, signal, command, or resume: the change was met when the run went on
	Outcome  string            `json:"outcome"`         // accepted or refused
	Reason   string            `json:"reason,omitempty"`
	Set      map[string]string `json:"set,omitempty"`  // keys of the TOML and the values asked for
	File     map[string]string `json:"file,omitempty"` // the values that the TOML had for them
}

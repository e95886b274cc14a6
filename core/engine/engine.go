// Package engine is the contract of what samples from a policy and trains it: a
// laptop's embedded engine and a cluster's service run under the same trainer.
// The five operations are the Tinker primitives.
package engine

import (
	"context"
	"slices"

	"github.com/valence-rl/valence/core/diag"
)

// Engine holds one policy's weights and optimizer state.
//
// Concurrency: Sample may be called from many goroutines at once and is batched
// inside. ForwardBackward, OptimStep, Save and Load are called by one goroutine,
// and wait until the sampling steps under way are done; a sequence being sampled
// while OptimStep runs continues with the new weights and says so in
// [Sampled.Versions].
//
// Determinism: the tokens of a Sample depend on the weights and the request
// alone, never on what else is in the batch nor on the number of threads.
// ForwardBackward and OptimStep give the same bits for the same calls.
type Engine interface {
	// Info says what the engine is and what it honours. It does not block.
	Info() Info
	// Sample continues one prompt. It blocks until a stop token, MaxTokens or
	// the context's end.
	Sample(ctx context.Context, r SampleRequest) (Sampled, error)
	// Release frees what Sample keeps for a session (its KV cache). Unknown
	// sessions are ignored.
	Release(session string)
	// ForwardBackward adds the gradients of loss over batch to those held.
	// Nothing is updated. Losses are sums over tokens of weight·term; all
	// normalisation is in the weights.
	ForwardBackward(ctx context.Context, batch []Datum, loss Loss) (Result, error)
	// OptimStep applies the held gradients, clears them and adds one to the
	// version.
	OptimStep(ctx context.Context, p AdamParams) (StepResult, error)
	// Save writes the policy as a Hugging Face folder (config.json,
	// model.safetensors, generation_config.json) and the optimizer's state
	// (optimizer.safetensors) into dir, which exists. Files appear whole or
	// not at all. The tokenizer is not the engine's.
	Save(dir string) error
	// Load replaces weights, optimizer state (fresh if the folder has none) and
	// version.
	Load(dir string) error
	// Close frees memory and stops background work.
	Close() error
}

// Info describes an engine.
type Info struct {
	Name       string
	Vocab      int // tokens
	MaxContext int // tokens
	Parameters int
	Version    int // of the weights: the number of OptimSteps since the policy was made
	Losses     []LossKind
	Threads    int
}

// SampleRequest asks for one continuation.
type SampleRequest struct {
	Session     string // turns of one conversation share it, so that the KV cache is kept; "" keeps none
	Prompt      []int  // the whole conversation so far
	MaxTokens   int    // at most this many new tokens; the context's end also ends the sequence
	Temperature float64
	TopK        int     // 0: all
	TopP        float64 // 0 or 1: all
	Stop        []int   // sampled and returned, then the sequence ends
	Seed        uint64  // the sequence's own randomness
}

// StopReason says why sampling ended.
type StopReason string

// The reasons.
const (
	StopToken   StopReason = "stop"        // a stop token was sampled
	StopLength  StopReason = "length"      // MaxTokens
	StopContext StopReason = "max_context" // the engine's context is full
)

// Sampled is one continuation; the three slices have one entry a token.
type Sampled struct {
	Tokens   []int
	Logprobs []float32 // at temperature 1 of the full distribution when TopK and TopP are off and Temperature is 1; else of the distribution sampled from
	Versions []int     // of the weights
	Stop     StopReason
}

// Datum is one sequence to learn from. Position t predicts Tokens[t+1], so the
// per-token slices have len(Tokens)-1 entries; Weights of 0 mask a token out.
type Datum struct {
	Tokens    []int
	Weights   []float32 // of each target; carries every normalisation
	Advantage float32   // of the sequence; unused by CrossEntropy
	Old       []float32 // logprob of each target when it was sampled; unused by CrossEntropy
}

// LossKind names a loss.
type LossKind string

// The losses.
const (
	// CrossEntropy is −Σ w·logπ.
	CrossEntropy LossKind = "cross_entropy"
	// Clipped is −Σ w·min(ρA, clip(ρ,1−Low,1+High)A), ρ=exp(logπ−old); ALGORITHMS 3.
	Clipped LossKind = "ppo"
)

// Loss is a loss with its bounds.
type Loss struct {
	Kind       LossKind
	Low, High  float64 // of Clipped; High may be +Inf
	EntropyCof float64 // bonus coefficient; an engine that cannot honour it refuses it in Check
}

// Result is what ForwardBackward measured; means weigh each target with w≠0 once.
type Result struct {
	Loss      float64     // the sum that was differentiated
	Logprobs  [][]float32 // of each datum's targets under the current weights; 0 where masked
	Entropy   float64     // mean over unmasked targets of the policy's full entropy, nats
	ClipShare float64     // share of unmasked targets whose gradient the clip removed
	Ratio     float64     // mean of ρ
	Tokens    int         // unmasked targets
}

// AdamParams are one step's. Weight decay is decoupled and skips vectors.
type AdamParams struct {
	LearningRate float64
	Beta1        float64 // 0: 0.9
	Beta2        float64 // 0: 0.95
	Eps          float64 // 0: 1e-8
	WeightDecay  float64
	ClipNorm     float64 // global norm of the gradient; 0: no clipping
}

// StepResult is what OptimStep did.
type StepResult struct {
	GradNorm float64 // before clipping
	Version  int
}

// Check refuses a loss that e does not honour, by name. Call it before training.
func Check(e Engine, l Loss) error {
	if !slices.Contains(e.Info().Losses, l.Kind) {
		return diag.Errorf(diag.KindConfig, "check engine", e.Info().Name, "loss %q is not offered; it offers %v", l.Kind, e.Info().Losses)
	}
	return nil
}

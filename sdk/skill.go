// Package sdk is what the author of a skill imports: the nouns that cross the
// border (a [Task], an [Output], a [Verdict]) and the interfaces to fill in. One
// source compiles to a WASM module and to a native process.
//
// A plugin's life has four steps:
//
//  1. init: the package's init function calls [Register]. A WASM module never runs main.
//  2. describe: the host asks name, version and roles, and compares them with plugin.toml.
//  3. build: once a record, a [TaskBuilder] makes tasks. No sandbox is open yet.
//  4. evaluate: once an episode, an [Evaluator] scores what the agent left. In a
//     WASM module a fresh instance serves each evaluation, so that package variables
//     carry nothing over; a process serves many at the same time, so that they must not.
//
// An error that a method returns is an infrastructure failure: the episode is
// retried and at last excluded. A bad answer by the agent is a [Verdict] with a
// score of 0, never an error.
package sdk

import (
	"context"

	"github.com/valence-rl/valence/sdk/wire"
)

// The nouns. Their fields are documented in package wire.
type (
	File            = wire.File
	Change          = wire.Change
	Workspace       = wire.Workspace
	Record          = wire.Record
	Target          = wire.Target
	Mutant          = wire.Mutant
	Candidate       = wire.Candidate
	Pair            = wire.Pair
	Task            = wire.Task
	Reference       = wire.Reference
	Output          = wire.Output
	Verdict         = wire.Verdict
	Component       = wire.Component
	BuildRequest    = wire.BuildRequest
	BuildResponse   = wire.BuildResponse
	EvaluateRequest = wire.EvaluateRequest
	JudgeRequest    = wire.JudgeRequest
	JudgeResponse   = wire.JudgeResponse
	Log             = wire.Log
	RunRequest      = wire.RunRequest
	RunResponse     = wire.RunResponse
	Command         = wire.Command
	ModelRequest    = wire.ModelRequest
	ModelMessage    = wire.ModelMessage
	ModelResponse   = wire.ModelResponse
)

// Skill is what [Register] takes. What it can do beyond its name is found by its
// other methods: TaskBuilder, Evaluator, Judge.
type Skill interface {
	// Describe gives the name and the version, equal to those in plugin.toml.
	Describe() (name, version string)
}

// TaskBuilder makes the tasks of a record.
type TaskBuilder interface {
	// Build must give the same tasks for the same request. A record that does
	// not suit the skill gives no task and a reason in Skipped, not an error.
	Build(ctx context.Context, h Host, r *BuildRequest) (*BuildResponse, error)
}

// Evaluator scores one output.
type Evaluator interface {
	// Evaluate must not trust the agent's words where a file can be read or a
	// command run. Every command runs in a sandbox of its own through h.Run.
	Evaluate(ctx context.Context, h Host, r *EvaluateRequest) (*Verdict, error)
}

// Judge decides from two logs whether an issue was reproduced.
type Judge interface {
	Judge(ctx context.Context, h Host, r *JudgeRequest) (*JudgeResponse, error)
}

// Host is what the framework offers to a plugin, each method one capability,
// which plugin.toml declares and the run grants. A call that was not granted
// gives an error that names the capability. Calls block until answered.
type Host interface {
	// Run runs commands in one fresh sandbox. Capability "sandbox".
	Run(ctx context.Context, r *RunRequest) (*RunResponse, error)
	// Model asks the run's model. Capability "model".
	Model(ctx context.Context, r *ModelRequest) (*ModelResponse, error)
	// Ask asks the skill's judge. Capability "judge".
	Ask(ctx context.Context, r *JudgeRequest) (*JudgeResponse, error)
	// Log writes a line to the host's log. Capability "log". It never fails.
	Log(ctx context.Context, level, text string)
}

var registered Skill

// Register makes s the skill that this program serves. Call it from init, once;
// a second call panics.
func Register(s Skill) {
	if registered != nil {
		panic("sdk: Register called twice")
	}
	registered = s
	roles(s) // the runtime remembers them, which each call is quicker for
}

// Registered is the skill of this program, or nil.
func Registered() Skill { return registered }

// Package policy turns a conversation into tokens and tokens into turns. A policy
// is whatever answers in a rollout: an engine's weights, a recorded expert, the
// task's own reference.
package policy

import (
	"context"

	"github.com/valence-rl/valence/sdk"
)

// Policy opens sessions. It is safe for concurrent use.
type Policy interface {
	// Name is for logs and reports: "gorgonia", "oracle", "noop", …
	Name() string
	// Version of the weights now; 0 for policies without weights.
	Version() int
	// Open starts one conversation about a task.
	Open(ctx context.Context, o Opening) (Session, error)
}

// Opening is what a session starts from.
type Opening struct {
	ID          string // unique among open sessions
	Task        *sdk.Task
	Seed        uint64
	Temperature float64
	MaxTokens   int // of one turn; 0: what the context leaves

	// Piece gets the text of a turn as it comes, where the policy has it piece by
	// piece; nil: nobody listens. Text that is then thrown away ends with a Piece of
	// "". It is called by the goroutine that calls Next.
	Piece func(text string)
}

// Session is one conversation, used by one goroutine. An error from Next is a
// diag.Error of KindPolicy or the context's error.
type Session interface {
	// Next gives the policy's next turn. observation answers the last turn's
	// call; it is ignored the first time.
	Next(ctx context.Context, observation string) (Turn, error)
	// Close frees what the session holds.
	Close()
}

// Turn is one answer of a policy. Exactly one of these holds: Call is set (a tool
// is asked for), Malformed is set (the answer cannot be read; it says why), Full is
// true (no room was left to answer), or none (Text is the final message, which
// submits).
type Turn struct {
	Text      string
	Call      *Call
	Malformed string
	Full      bool   // the context is full: the turn is cut or empty
	Reasoning string // what the model thought before, where a server tells it apart
	Usage     *Usage // what a server says the turn took; nil for a policy without a server

	// Token-exact record, empty for policies without tokens. Context is every
	// token before the turn; Tokens, Logprobs and Versions have one entry a
	// sampled token.
	Context  []int
	Tokens   []int
	Logprobs []float32
	Versions []int
}

// Usage is what one turn took at a server.
type Usage struct {
	Prompt     int     // tokens read
	Cached     int     // of those, known to the server from before
	Completion int     // tokens written
	Cost       float64 // at the configured prices
	Attempts   int     // 1 where the first had an answer
	Seconds    float64 // from the first attempt to the answer, waiting included
}

// Call asks for a tool. The argument names are those of the tool's schema.
type Call struct {
	ID        string
	Tool      string // "bash" or "str_replace"
	Arguments map[string]string
}

// The tools and their arguments, in the order in which a brief chat writes them.
// str_replace's first argument, command, decides which of the others are used.
const (
	ToolBash       = "bash"        // command
	ToolStrReplace = "str_replace" // command, path, then by command as in StrReplaceArguments
)

// StrReplaceArguments lists, for each command of str_replace, the arguments after
// command and path.
var StrReplaceArguments = map[string][]string{
	"view":    {},
	"create":  {"file_text"},
	"replace": {"old_str", "new_str"},
	"insert":  {"insert_line", "new_str"},
}

// Tokenizer maps text to ids and back. Encode never produces a special token.
type Tokenizer interface {
	Encode(text string) []int
	Decode(ids []int) string // special tokens are written by their names
	Special(name string) (id int, ok bool)
	Size() int
}

// Chat renders conversations for one tokenizer. All methods are pure.
type Chat interface {
	// Start renders the system prompt and the user's message up to where the
	// policy answers. system may be empty.
	Start(system, prompt string) []int
	// Reply renders a turn as the policy would have sampled it, its stop token
	// included (for supervised training).
	Reply(t Turn) []int
	// Observe renders a tool's answer up to where the policy answers again.
	Observe(text string) []int
	// Parse reads a sampled turn; it sets Text and Call, or Malformed. ids may
	// lack the stop token when the turn was cut, which is Malformed too.
	Parse(ids []int) Turn
	// Stop lists the tokens that end a turn.
	Stop() []int
}

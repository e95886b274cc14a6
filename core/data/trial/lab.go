package trial

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/data/runner"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Sandboxes gives each request a fresh sandbox of its own.
type Sandboxes interface {
	Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error)
}

// Lab runs tests. It is safe for concurrent use.
type Lab struct {
	Runner  *runner.Runner
	Journal *Journal
	Limit   time.Duration // of one command; 0: 60 s
	// Prepare is told of a workspace that many sandboxes will be made of, before the
	// first; nil: nobody needs to know.
	Prepare func(context.Context, *sdk.Workspace) error

	sandboxes Sandboxes
	slots     chan struct{}
}

// NewLab makes a lab that has at most n sandboxes at the same time.
func NewLab(s Sandboxes, r *runner.Runner, j *Journal, n int) *Lab {
	return &Lab{Runner: r, Journal: j, sandboxes: s, slots: make(chan struct{}, max(1, n))}
}

// Outcome is how the tests of one unit ended.
type Outcome struct {
	Passed   []string `json:"p,omitempty"` // sorted
	Failed   []string `json:"f,omitempty"`
	TimedOut bool     `json:"t,omitempty"`
	Exit     int64    `json:"x,omitempty"`
	Millis   int64    `json:"ms,omitempty"`
	Log      string   `json:"l,omitempty"` // its end
}

// logEnd is how much of a log is kept.
const logEnd = 16 << 10

// Test runs the units of tests given, one command each, in one fresh sandbox of w with
// changes. The nth repeat of a test has another seed for Python's hashes than the
// others. Of stable, where it is not nil, only these tests are told of. Errors are of
// the host, never of the tests.
func (l *Lab) Test(ctx context.Context, w *Workspace, changes []sdk.Change, groups []runner.Group, stable map[string]bool, limit time.Duration, repeat int) ([]Outcome, error) {
	if limit <= 0 {
		limit = l.Limit
	}
	if limit <= 0 {
		limit = time.Minute
	}
	r := &sdk.RunRequest{Workspace: w.Workspace, Changes: changes}
	for _, g := range groups {
		r.Commands = append(r.Commands, sdk.Command{
			Shell: l.Runner.Line(g.Files...), Millis: limit.Milliseconds(),
			Env: []string{fmt.Sprintf("PYTHONHASHSEED=%d", repeat)},
		})
	}
	return Recall(l.Journal, key("test", w, r, stable != nil), func() ([]Outcome, error) {
		answer, err := l.Run(ctx, r)
		if err != nil {
			return nil, err
		}
		out := make([]Outcome, len(groups))
		for i := range answer.Logs {
			if out[i], err = l.outcome(&answer.Logs[i], stable); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

func (l *Lab) outcome(log *sdk.Log, stable map[string]bool) (Outcome, error) {
	o := Outcome{TimedOut: log.TimedOut, Exit: log.ExitCode, Millis: log.Millis}
	results, err := l.Runner.Parse(log.Output)
	if err != nil {
		return o, diag.Wrap(diag.KindConfig, "run tests", l.Runner.Name, err)
	}
	for id, status := range results.All() {
		switch {
		case stable != nil && !stable[id]:
		case status.Passes():
			o.Passed = append(o.Passed, id)
		case status.Fails():
			o.Failed = append(o.Failed, id)
		}
	}
	slices.Sort(o.Passed)
	slices.Sort(o.Failed)
	if len(o.Failed) > 0 || log.ExitCode != 0 {
		o.Log = tail(l.telling(log.Output, o.Failed))
	}
	return o, nil
}

// telling leaves out what a log says of tests that passed, where that is easily seen.
func (l *Lab) telling(log string, failed []string) string {
	if l.Runner.Parser != "gotest_json" || len(failed) == 0 {
		return log
	}
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"Action":"output"`) || b.Len() > logEnd-len(line) {
			continue
		}
		if slices.ContainsFunc(failed, func(id string) bool {
			return strings.Contains(line, `"Test":"`+id[strings.LastIndex(id, ".Test")+1:]+`"`)
		}) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func tail(s string) string {
	if len(s) > logEnd {
		s = strings.ToValidUTF8(s[len(s)-logEnd:], "")
	}
	return s
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// Run makes one request, when a sandbox is free for it. What it answers is complete:
// one log a command.
func (l *Lab) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, diag.Wrap(diag.KindInterrupted, "run tests", "", ctx.Err())
	}
	defer func() { <-l.slots }()
	answer, err := l.sandboxes.Run(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, diag.Wrap(diag.KindInterrupted, "run tests", "", ctx.Err())
		}
		return nil, err
	}
	if len(answer.Logs) != len(r.Commands) {
		return nil, diag.Errorf(diag.KindSandbox, "run tests", "", "%d logs for %d commands", len(answer.Logs), len(r.Commands))
	}
	return answer, nil
}

// Succeeds runs one command and says whether its exit status was 0.
func (l *Lab) Succeeds(ctx context.Context, w *Workspace, changes []sdk.Change, shell string, repeat int) (Outcome, error) {
	limit := l.Limit
	if limit <= 0 {
		limit = time.Minute
	}
	r := &sdk.RunRequest{Workspace: w.Workspace, Changes: changes, Commands: []sdk.Command{{
		Shell: shell, Millis: limit.Milliseconds(), Env: []string{fmt.Sprintf("PYTHONHASHSEED=%d", repeat)},
	}}}
	return Recall(l.Journal, key("run", w, r, false), func() (Outcome, error) {
		answer, err := l.Run(ctx, r)
		if err != nil {
			return Outcome{}, err
		}
		log := &answer.Logs[0]
		return Outcome{Exit: log.ExitCode, TimedOut: log.TimedOut, Millis: log.Millis, Log: tail(log.Output)}, nil
	})
}

// Verdict is what the tests of a record say about changes to its workspace.
type Verdict struct {
	Solved bool
	Reason string
}

// Verify runs the tests of a record as the skills' evaluators do.
func (l *Lab) Verify(ctx context.Context, r *sdk.Record, changes []sdk.Change, repeat int) (Verdict, error) {
	w := NewWorkspace(r.Workspace)
	q := &sdk.RunRequest{Changes: changes, Patches: []string{r.TestPatch, strings.Join(r.FailToPass, "\n"), strings.Join(r.PassToPass, "\n")},
		Commands: []sdk.Command{{Shell: r.TestCommand}, {Shell: fmt.Sprint(repeat)}}}
	return Recall(l.Journal, key("verify", w, q, false), func() (Verdict, error) {
		limit := l.Limit
		if limit <= 0 {
			limit = time.Minute
		}
		rep, err := grade.RunTests(ctx, host{lab: l}, r, changes, uint64(repeat), r.ID, limit.Milliseconds())
		if err != nil {
			return Verdict{}, err
		}
		return Verdict{rep.Solved, rep.Reason}, nil
	})
}

// host is what running a record's tests needs of a host: its sandboxes.
type host struct {
	sdk.Host
	lab *Lab
}

func (h host) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	return h.lab.Run(ctx, r)
}

// Workspace is a workspace with the digest of its content.
type Workspace struct {
	sdk.Workspace
	digest string
}

// NewWorkspace takes the digest once for many runs.
func NewWorkspace(w sdk.Workspace) *Workspace {
	h := sha256.New()
	for _, f := range w.Files {
		field(h.Write, f.Path)
		field(h.Write, string(f.Data))
		field(h.Write, fmt.Sprint(f.Exec))
	}
	field(h.Write, w.Image)
	field(h.Write, w.Dir)
	field(h.Write, strings.Join(w.Patches, "\x00"))
	field(h.Write, strings.Join(w.Env, "\x00"))
	return &Workspace{w, hex.EncodeToString(h.Sum(nil))}
}

func key(what string, w *Workspace, r *sdk.RunRequest, flag bool) string {
	h := sha256.New()
	field(h.Write, what)
	field(h.Write, w.digest)
	field(h.Write, fmt.Sprint(flag))
	for _, p := range r.Patches {
		field(h.Write, p)
	}
	for _, c := range r.Changes {
		field(h.Write, c.Path)
		field(h.Write, string(c.Data))
		field(h.Write, fmt.Sprint(c.Exec, c.Deleted, c.Symlink))
	}
	for _, c := range r.Commands {
		field(h.Write, c.Shell)
		field(h.Write, strings.Join(c.Env, "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func field(write func([]byte) (int, error), s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	write(n[:])
	write([]byte(s))
}

// Output runs one command, which must succeed, and gives what it printed. Its log is
// not kept in the journal.
func (l *Lab) Output(ctx context.Context, w *Workspace, shell string) (string, error) {
	answer, err := l.Run(ctx, &sdk.RunRequest{Workspace: w.Workspace, Commands: []sdk.Command{{Shell: shell, Millis: (5 * time.Minute).Milliseconds()}}})
	if err != nil {
		return "", err
	}
	log := &answer.Logs[0]
	if log.ExitCode != 0 || log.TimedOut || log.Truncated {
		return "", diag.Errorf(diag.KindSandbox, "run command", shell, "exit status %d, timed out %t, cut %t: %s", log.ExitCode, log.TimedOut, log.Truncated, lastLine(log.Output))
	}
	return log.Output, nil
}

// Ready finds out whether the runner can work in a sandbox of w. The error says what
// is missing and what to do.
func (l *Lab) Ready(ctx context.Context, w *Workspace) error {
	if l.Runner.Needs == "" {
		return nil
	}
	answer, err := l.Run(ctx, &sdk.RunRequest{Workspace: w.Workspace, Commands: []sdk.Command{{Shell: l.Runner.Needs}}})
	if err != nil {
		return err
	}
	if log := &answer.Logs[0]; log.ExitCode != 0 {
		out := &diag.Diagnostic{Kind: diag.KindData, Code: "D020", Summary: "the sandbox cannot run " + l.Runner.Name, Hint: l.Runner.Hint}
		out.Detail = append(out.Detail, fmt.Sprintf("`%s` ended with exit status %d", l.Runner.Needs, log.ExitCode))
		if text := lastLine(log.Output); text != "" {
			out.Detail = append(out.Detail, text)
		}
		return out
	}
	return nil
}

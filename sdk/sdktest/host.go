// Package sdktest is for the tests of skill authors: a [Host] that answers
// capability calls with real processes, and the conformance suite that every plugin
// passes before it may train anything, as a test ([Check]) and as data ([Examine]).
//
// The suite's checks of a skill, in their order:
//
//   - tasks: the same request gives the same tasks, or a reason why there is none.
//   - keys: each task has a key of its own that starts with the skill's name.
//   - prompts: no prompt is empty or has a placeholder left.
//   - collect: a task names the files of its answer, the reference's among them.
//   - hidden: neither prompts nor workspace show the hidden part or the reference.
//   - sandbox: nor does anything else in the task's sandbox.
//   - gold: the reference scores 1.
//   - empty answer: an answer without changes and words scores 0.
//   - malformed: garbage, huge, deleted and linked files, odd encodings, words alone
//     and episodes cut short have a verdict, below 1.
//   - tampering: deleted and edited tests, planted configuration, start-up files and
//     modules, claimed success, forged reports and stopped clocks score 0.
//   - repeats: the verdict on an answer stays the same, also after others.
//   - verdicts: score and components lie in [0,1]; each verdict has a reason.
//   - limits: each call ends in time, also where the answer is a program that does
//     not, and no verdict is longer than 64 KiB.
//   - capabilities: the plugin asks for nothing that it does not declare.
//
// And of a judge: reproduced, no difference, poor logs, repeated opinions, opinions.
//
// The host here isolates nothing: commands run as the caller, in a folder that is
// removed afterwards. It is for tests on code that the author trusts.
package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Host serves capability calls in tests. The zero Host runs commands and has
// neither judge nor model. It is safe for concurrent use.
type Host struct {
	Judge   sdk.Judge                                              // answers Ask; nil: asking is an error
	Answer  func(*sdk.ModelRequest) (*sdk.ModelResponse, error)    // answers Model; nil: asking is an error
	Command time.Duration                                          // limit of a command that names none; default 60 s
	Observe func(request *sdk.RunRequest, answer *sdk.RunResponse) // sees each Run; may be nil

	mu   sync.Mutex
	runs int
	log  []string
}

var _ sdk.Host = (*Host)(nil)

// Run makes a new folder with the workspace, applies patches and then changes, and
// runs the commands in it by sh. Images are refused. It blocks for as
// long as the commands take.
func (h *Host) Run(ctx context.Context, r *sdk.RunRequest) (*sdk.RunResponse, error) {
	if r.Workspace.Image != "" {
		return nil, fmt.Errorf("run: %s: images are not supported in tests", r.Workspace.Image)
	}
	patches := append(append([]string(nil), r.Workspace.Patches...), r.Patches...)
	tree, err := grade.ApplyDiff(r.Workspace.Files, patches...)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sdktest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, f := range tree {
		if err := write(root, f.Path, f.Data, f.Exec); err != nil {
			return nil, err
		}
	}
	for _, c := range r.Changes {
		if err := apply(root, &c); err != nil {
			return nil, err
		}
	}
	answer := new(sdk.RunResponse)
	for _, c := range r.Commands {
		log, err := h.command(ctx, dir, r.Workspace.Env, &c)
		if err != nil {
			return nil, err
		}
		answer.Logs = append(answer.Logs, *log)
	}
	h.mu.Lock()
	h.runs++
	h.mu.Unlock()
	if h.Observe != nil {
		h.Observe(r, answer)
	}
	return answer, nil
}

func (h *Host) command(ctx context.Context, dir string, env []string, c *sdk.Command) (*sdk.Log, error) {
	limit := time.Duration(c.Millis) * time.Millisecond
	if limit == 0 {
		limit = h.Command
	}
	if limit == 0 {
		limit = time.Minute
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limited, "sh", "-c", c.Shell)
	cmd.Dir = dir
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8"}, env...), c.Env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	started := time.Now()
	err := cmd.Run()
	log := &sdk.Log{Output: strings.ToValidUTF8(out.String(), "\ufffd"), Millis: time.Since(started).Milliseconds()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		log.TimedOut, log.ExitCode = true, 137
	case errors.As(err, &exit):
		log.ExitCode = int64(exit.ExitCode())
		if n := signal(exit); n > 0 {
			log.ExitCode = 128 + int64(n)
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, err
	}
	return log, nil
}

// Ask asks h.Judge.
func (h *Host) Ask(ctx context.Context, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	if h.Judge == nil {
		return nil, errors.New("ask judge: the test's host has none")
	}
	return h.Judge.Judge(ctx, h, r)
}

// Model asks h.Answer.
func (h *Host) Model(_ context.Context, r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	if h.Answer == nil {
		return nil, errors.New("ask model: the test's host has none")
	}
	return h.Answer(r)
}

// Log keeps a line for [Host.Lines].
func (h *Host) Log(_ context.Context, level, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, level+": "+text)
}

// Lines gives what was logged, each line as "level: text".
func (h *Host) Lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.log...)
}

// Runs is the number of sandboxes that were made.
func (h *Host) Runs() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs
}

// apply makes one change. Nothing is written through a link that leads out of the
// workspace.
func apply(root *os.Root, c *sdk.Change) error {
	if !c.Deleted && c.Symlink == "" {
		return write(root, c.Path, c.Data, c.Exec)
	}
	name, err := local(c.Path)
	if err != nil {
		return err
	}
	if err := root.RemoveAll(name); err != nil || c.Deleted {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return root.Symlink(c.Symlink, name)
}

func write(root *os.Root, path string, data []byte, executable bool) error {
	name, err := local(path)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	return root.WriteFile(name, data, mode)
}

func local(path string) (string, error) {
	if !fs.ValidPath(path) || path == "." {
		return "", fmt.Errorf("run: %s: not a clean path within the workspace", path)
	}
	return filepath.FromSlash(path), nil
}

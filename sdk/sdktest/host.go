// Package sdktest is for the tests of skill authors: a [Host] that answers
// capability calls with real processes, and [Check], the conformance suite that
// every skill passes before it may train anything.
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
// runs the commands in it by sh. Images and links are refused. It blocks for as
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
	for _, f := range tree {
		if err := write(dir, f.Path, f.Data, f.Exec); err != nil {
			return nil, err
		}
	}
	for _, c := range r.Changes {
		switch {
		case c.Symlink != "":
			return nil, fmt.Errorf("run: %s: links are not supported in tests", c.Path)
		case c.Deleted:
			err = os.Remove(filepath.Join(dir, filepath.FromSlash(c.Path)))
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		default:
			err = write(dir, c.Path, c.Data, c.Exec)
		}
		if err != nil {
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

func write(dir, path string, data []byte, executable bool) error {
	if !fs.ValidPath(path) {
		return fmt.Errorf("run: %s: not a clean path within the workspace", path)
	}
	name := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	return os.WriteFile(name, data, mode)
}

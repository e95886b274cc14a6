package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// A question to a run under way is a file in its folder "ask"; the run answers with
// another beside it. Both appear by rename.
const (
	askFolder = "ask"
	question  = ".question"
	answer    = ".answer"
)

// asked is a question: keys to set, "skill.key=value", with the folder that relative
// paths in them start from.
type asked struct {
	Set []string `json:"set"`
	Dir string   `json:"dir"`
}

// answered is what became of it.
type answered struct {
	Swaps   []journal.Swap `json:"swaps,omitempty"`
	Error   string         `json:"error,omitempty"`   // the refusal; "": it was accepted
	Kind    diag.Kind      `json:"kind,omitempty"`    // of the refusal
	Details diag.List      `json:"details,omitempty"` // its diagnostics, if it has any
}

// answerTo says what became of a question.
func answerTo(swaps []journal.Swap, err error) answered {
	a := answered{Swaps: swaps}
	if err == nil {
		return a
	}
	a.Error, a.Kind = err.Error(), diag.KindOf(err)
	var one *diag.Diagnostic
	if !errors.As(err, &a.Details) && errors.As(err, &one) {
		a.Details = diag.List{one}
	}
	return a
}

// Ask has the process that works on the run in dir swap plugins or judges: each of
// set is "skill.key=value", the key being plugin, judge, transport, or one below
// config or judge_config. It blocks until the run has answered, which takes as long
// as building and trying the plugins, and gives the swaps made; none if everything
// is as asked already. A refusal has the kind of its reason. Without a process at
// work the error is of KindConfig.
func Ask(ctx context.Context, dir string, set []string) ([]journal.Swap, error) {
	d := journal.Dir(dir)
	if err := busy(d); err != nil {
		return nil, err
	}
	wd, err := os.Getwd()
	if err != nil {
		return nil, diag.Wrap(diag.KindConfig, "ask run", dir, err)
	}
	if err := os.MkdirAll(d.Path(askFolder), 0o755); err != nil {
		return nil, diag.Wrap(diag.KindData, "ask run", dir, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed, err := watch(ctx, d.Path(askFolder))
	if err != nil {
		return nil, err
	}
	name := filepath.Join(askFolder, fmt.Sprintf("%d-%d", time.Now().UnixNano(), os.Getpid()))
	defer os.Remove(d.Path(name + answer))
	defer os.Remove(d.Path(name + question))
	over := idle(d)
	for {
		_, err := os.Stat(d.Path(name + question))
		gone := err != nil // not asked yet, swept by a process that has just begun, or answered
		got, ok, err := reply(d, name)
		switch {
		case ok || err != nil:
			return got.Swaps, errors.Join(err, got.err())
		case gone:
			if err := d.WriteJSON(name+question, asked{set, wd}); err != nil {
				return nil, err
			}
		}
		select {
		case <-changed:
		case <-over:
			if got, ok, err := reply(d, name); ok || err != nil {
				return got.Swaps, errors.Join(err, got.err())
			}
			return nil, diag.Errorf(diag.KindUnknown, "ask run", dir, "the run ended before it answered; `valence report` shows the swaps it made")
		case <-ctx.Done():
			return nil, diag.Wrap(diag.KindInterrupted, "ask run", dir, context.Cause(ctx))
		}
	}
}

func (a answered) err() error {
	switch {
	case a.Error == "":
		return nil
	case len(a.Details) > 0:
		return &refusal{a.Error, a.Details}
	}
	return &refusal{a.Error, &diag.Error{Kind: a.Kind, Err: errors.New(a.Error)}}
}

// refusal is the run's reason, word for word.
type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

func reply(d journal.Dir, name string) (a answered, ok bool, err error) {
	b, err := os.ReadFile(d.Path(name + answer))
	if errors.Is(err, os.ErrNotExist) {
		return a, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err == nil, diag.Wrap(diag.KindData, "read answer", d.Path(name+answer), err)
}

// busy is nil while a process works on a run.
func busy(d journal.Dir) error {
	f, err := os.Open(d.Path(".lock"))
	if errors.Is(err, os.ErrNotExist) {
		return diag.Errorf(diag.KindConfig, "ask run", string(d), "no run there; name a run's folder, e.g. runs/quickstart")
	}
	if err != nil {
		return diag.Wrap(diag.KindData, "ask run", string(d), err)
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C061",
			Summary: fmt.Sprintf("no process works on %s", d),
			Hint:    "change plugin, judge or config in the run's TOML; it holds from the next `valence train`"}
	}
	return nil
}

// idle is closed when no process works on a run any more.
func idle(d journal.Dir) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		f, err := os.Open(d.Path(".lock"))
		if err != nil {
			return
		}
		defer f.Close()
		for syscall.Flock(int(f.Fd()), syscall.LOCK_SH) == syscall.EINTR {
		}
	}()
	return over
}

// questions lists what a run was asked and has not answered, oldest first, by the
// names that its answers get.
func questions(d journal.Dir) ([]string, error) {
	found, err := filepath.Glob(d.Path(askFolder, "*"+question))
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read questions", string(d), err)
	}
	for i, p := range found {
		found[i] = filepath.Join(askFolder, strings.TrimSuffix(filepath.Base(p), question))
	}
	return found, nil
}

// forgetQuestions removes what was asked of a process that is no more; who still
// waits asks again.
func forgetQuestions(d journal.Dir) error {
	for _, kind := range []string{question, answer} {
		left, err := filepath.Glob(d.Path(askFolder, "*"+kind))
		for _, p := range left {
			if e := os.Remove(p); !errors.Is(e, os.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
		if err != nil {
			return diag.Wrap(diag.KindData, "open run", string(d), err)
		}
	}
	return nil
}

package policy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

func TestNoop(t *testing.T) {
	p := policy.Noop()
	s := open(t, p, policy.Opening{})
	if diff := cmp.Diff(policy.Turn{}, next(t, s, "")); diff != "" {
		t.Error(diff)
	}
	if p.Name() != "noop" || p.Version() != 0 {
		t.Errorf("%q, version %d", p.Name(), p.Version())
	}
}

func TestScripted(t *testing.T) {
	call := &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": "ls"}}
	p := policy.NewScripted("fixed", func(task *sdk.Task, seed uint64) []policy.Turn {
		return []policy.Turn{{Call: call}, {Text: task.Key}}
	})
	s := open(t, p, policy.Opening{})
	defer s.Close()
	first := next(t, s, "")
	if first.Call.ID != "call_1" || call.ID != "" {
		t.Errorf("ids %q and, in the plan, %q", first.Call.ID, call.ID)
	}
	if got := next(t, s, "").Text; got != "editing/x" {
		t.Errorf("got %q", got)
	}
	if _, err := s.Next(t.Context(), ""); diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("after the last turn: %v", err)
	}
	if _, err := p.Open(t.Context(), policy.Opening{}); diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("without a task: %v", err)
	}
}

func TestExpertSeesObservations(t *testing.T) {
	p := policy.NewExpert("echo", func(*sdk.Task, uint64) (policy.Script, error) {
		return func(observation string) (policy.Turn, error) {
			if observation == "fail" {
				return policy.Turn{}, errors.New("no idea")
			}
			return policy.Turn{Text: observation}, nil
		}, nil
	})
	s := open(t, p, policy.Opening{})
	for _, c := range []struct{ observation, want string }{{"ignored", ""}, {"seen", "seen"}} {
		if got := next(t, s, c.observation).Text; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if _, err := s.Next(t.Context(), "fail"); err == nil || err.Error() != "ask echo: editing/x: no idea" || diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestOracleNeedsAReference(t *testing.T) {
	_, err := policy.Oracle().Open(t.Context(), policy.Opening{Task: &sdk.Task{Key: "review/x"}})
	if err == nil || err.Error() != "open oracle: review/x: the task has no reference answer" || diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("got %v", err)
	}
}

func TestOracleTurns(t *testing.T) {
	create := func(id, path, text string) policy.Turn {
		return policy.Turn{Call: &policy.Call{ID: id, Tool: policy.ToolStrReplace, Arguments: map[string]string{"command": "create", "path": path, "file_text": text}}}
	}
	bash := func(id, command string) policy.Turn {
		return policy.Turn{Call: &policy.Call{ID: id, Tool: policy.ToolBash, Arguments: map[string]string{"command": command}}}
	}
	task := &sdk.Task{Key: "x", Reference: &sdk.Reference{
		Message: "<judgment>YES</judgment>",
		Changes: []sdk.Change{
			{Path: "a/run.sh", Data: []byte("echo\n"), Exec: true},
			{Path: "it's", Deleted: true},
			{Path: "l/to", Symlink: "../a b"},
			{Path: "raw", Data: []byte{0xff}},
		},
	}}
	want := []policy.Turn{
		bash("call_1", `rm -rf -- 'it'\''s'`),
		create("call_2", "a/run.sh", "echo\n"),
		bash("call_3", "chmod +x -- 'a/run.sh'"),
		bash("call_4", "mkdir -p -- 'l' && ln -sfn -- '../a b' 'l/to'"),
		bash("call_5", "printf %s /w== | base64 -d > 'raw'"),
		{Text: "<judgment>YES</judgment>"},
	}
	s := open(t, policy.Oracle(), policy.Opening{Task: task})
	for i := range want {
		if diff := cmp.Diff(want[i], next(t, s, "ok")); diff != "" {
			t.Errorf("turn %d: %s", i, diff)
		}
	}
}

// The turns, carried out by a shell, leave the reference's tree.
func TestOracleLeavesTheReference(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 150<<10)
	for i := range big {
		big[i] = byte(i * i >> 4)
	}
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "was a file"), []byte("x"), 0o644))
	must(os.WriteFile(filepath.Join(dir, "-gone"), []byte("x"), 0o644))
	task := &sdk.Task{Key: "x", Reference: &sdk.Reference{Changes: []sdk.Change{
		{Path: "was a file/$(x)", Data: []byte("quoted\n")},
		{Path: "was a file", Deleted: true},
		{Path: "-gone", Deleted: true},
		{Path: "new/run", Data: []byte("#!/bin/sh\n"), Exec: true},
		{Path: "new/'link'", Symlink: "run"},
		{Path: "data/big.bin", Data: big},
	}}}
	s := open(t, policy.Oracle(), policy.Opening{Task: task})
	for {
		turn := next(t, s, "")
		if turn.Call == nil {
			break
		}
		args := turn.Call.Arguments
		if turn.Call.Tool == policy.ToolStrReplace {
			path := filepath.Join(dir, args["path"])
			must(os.MkdirAll(filepath.Dir(path), 0o755))
			must(os.WriteFile(path, []byte(args["file_text"]), 0o644))
			continue
		}
		c := exec.CommandContext(t.Context(), shell, "-c", args["command"])
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args["command"], err, out)
		}
	}
	got := map[string]string{}
	must(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			got[rel] = "link to " + to
			return err
		}
		data, err := os.ReadFile(path)
		got[rel] = string(data)
		if info.Mode()&0o100 != 0 {
			got[rel] = "executable " + got[rel]
		}
		return err
	}))
	want := map[string]string{
		"was a file/$(x)": "quoted\n",
		"new/run":         "executable #!/bin/sh\n",
		"new/'link'":      "link to run",
		"data/big.bin":    string(big),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

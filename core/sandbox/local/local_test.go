package local

import (
	"context"
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}

func TestFirst(t *testing.T) {
	d, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	t.Logf("%+v", d.Isolation())
	b, err := d.Create(context.Background(), sandbox.Spec{Workspace: sdk.Workspace{Files: []sdk.File{{Path: "a/b.py", Data: []byte("print(1)\n")}}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Exec(context.Background(), sandbox.Command{Shell: "id; pwd; ls -la / /workspace /proc/1/fd; cat /proc/self/mountinfo; python3 a/b.py; which python3; echo x > new; rm -r a; env; cat /proc/self/cgroup; cat /proc/self/oom_score_adj; grep -E 'Cap|Seccomp' /proc/self/status; ls /etc"})
	t.Logf("code %d\n%s %v", r.ExitCode, r.Output, err)
	c, err := b.Diff(context.Background(), 0)
	t.Logf("%+v %v", c, err)
}

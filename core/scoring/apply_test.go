package scoring

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/swebench"
)

func TestMain(m *testing.M) {
	if local.Init() {
		return
	}
	os.Exit(m.Run())
}

// TestApplyScriptInSandbox applies patches where evaluators do: in a sandbox, which
// has no repository. Nothing of the script stays behind in the workspace.
func TestApplyScriptInSandbox(t *testing.T) {
	for _, name := range []string{"git", "patch"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("not tried: the sandbox has this machine's tools, and %s is not among them: %v", name, err)
		}
	}
	d, err := local.New(local.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	const before = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
	hunk := func(context string) string {
		return "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -2,5 +2,5 @@\n two\n " + context + "\n-four\n+4\n five\n six\n"
	}
	for _, tt := range []struct{ name, patch, how string }{
		{"exact", hunk("three"), "git apply"},
		{"with other context", hunk("3"), "patch --fuzz=5"},
		{"of another file", strings.ReplaceAll(hunk("three"), "a.txt", "b.txt"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			box, err := d.Create(t.Context(), sandbox.Spec{Name: t.Name(), Workspace: sdk.Workspace{Files: []sdk.File{{Path: "a.txt", Data: []byte(before)}}}})
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			script, err := swebench.ApplyScript(tt.patch)
			if err != nil {
				t.Fatal(err)
			}
			r, err := box.Exec(t.Context(), sandbox.Command{Shell: script})
			if err != nil {
				t.Fatal(err)
			}
			want := swebench.PatchApplied
			if tt.how == "" {
				want = swebench.PatchRefused
			}
			if r.ExitCode != want || strings.Contains(string(r.Output), ">>>>> Applied Patch ("+tt.how+")") != (tt.how != "") {
				t.Errorf("status %d: %s", r.ExitCode, r.Output)
			}
			changes, err := box.Diff(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if c.Path == "a.txt" && string(c.Data) == strings.Replace(before, "four", "4", 1) && tt.how != "" {
					continue
				}
				// What patch keeps of a file that it did not change exactly.
				if strings.HasSuffix(c.Path, ".orig") || strings.HasSuffix(c.Path, ".rej") {
					continue
				}
				t.Errorf("%s changed: %q", c.Path, c.Data)
			}
			if tt.how != "" && len(changes) == 0 {
				t.Error("nothing changed")
			}
		})
	}
}

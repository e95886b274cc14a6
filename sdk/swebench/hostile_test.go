package swebench_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/sdk/swebench"
)

// Whatever a prediction is, the script ends with one of its statuses, leaves nothing
// outside of the working directory, and applies what git applies.
func TestHostilePredictions(t *testing.T) {
	needTools(t)
	for _, d := range hostile.Diffs() {
		if d.Never == "MiB" || len(d.Text) > 64<<10 {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			script, err := swebench.ApplyScript(d.Text)
			if strings.ContainsRune(d.Text, 0) {
				if err == nil {
					t.Error("a NUL in a script")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			work := filepath.Join(dir, "a", "b", "c")
			if err := os.MkdirAll(work, 0o755); err != nil {
				t.Fatal(err)
			}
			tree{"x": "outside\n", "a/x": "outside\n", "a/b/x": "outside\n"}.write(t, dir)
			around := func() map[string]string {
				out := readTree(t, dir)
				maps.DeleteFunc(out, func(p, _ string) bool { return strings.HasPrefix(p, "a/b/c/") })
				return out
			}
			before := around()
			if err := hostile.Lay(work, d.Before); err != nil {
				t.Fatal(err)
			}
			out, code, err := tool(work, "/bin/sh", "-c", script)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(before, around()) {
				t.Errorf("outside there is now %q\n%s", around(), out)
			}
			if code != swebench.PatchApplied && code != swebench.PatchRefused {
				t.Errorf("status %d: %s", code, out)
			}
			if d.Never+d.Here != "" || d.NotGit {
				return
			}
			if got := hostile.Differences(t, work, d.Before); code != swebench.PatchApplied || !hostile.Equal(got, d.After) {
				t.Errorf("status %d, want %s\ngot %s\n%s", code, hostile.Brief(d.After), hostile.Brief(got), out)
			}
		})
	}
}

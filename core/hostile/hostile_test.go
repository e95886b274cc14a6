package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git itself makes of each diff what the corpus says, but where that is marked. A diff
// that git is to refuse is refused also where the tree would take it.
func TestDiffsByGit(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skipf("not tried: the corpus is held against git: %v", err)
	}
	for _, d := range Diffs() {
		t.Run(d.Name, func(t *testing.T) {
			if len(d.Text) > 1<<20 {
				t.Skip("its size is what it is about")
			}
			dir := t.TempDir()
			if err := Lay(dir, d.Before); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "apply", "-")
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(d.Text)
			cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			out, err := cmd.CombinedOutput()
			refused := d.Never != "" || d.Here != ""
			if (err != nil) != refused {
				if !d.NotGit {
					t.Errorf("git: %v: %s", err, out)
				}
				return
			}
			if refused {
				if d.NotGit {
					t.Errorf("git refuses it as well: %s", out)
				}
				return
			}
			got := Differences(t, dir, d.Before)
			if Equal(d.After, got) == d.NotGit {
				t.Errorf("want %s\ngot %s", Brief(d.After), Brief(got))
			}
		})
	}
}

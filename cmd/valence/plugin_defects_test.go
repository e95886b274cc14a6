package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/scaffold"
)

// TestDefectsAreNamed has `valence plugin test` find what only a host can find in a
// new skill with a defect, and what must not hurt the host. The defects that the
// suite finds by itself are in core/scaffold.
func TestDefectsAreNamed(t *testing.T) {
	const evaluate = "r *sdk.EvaluateRequest) (*sdk.Verdict, error) {\n"
	for _, d := range []struct {
		name           string
		file, old, new string
		code           int
		says           string // a line's beginning, of standard output or error
	}{
		{"the manifest has another name", "plugin.toml", `name = "my-skill"`, `name = "your-skill"`, 11,
			`error[P008]: plugin "your-skill" is not what its manifest says: its name is "my-skill", the manifest says "your-skill"`},
		{"the manifest has another version", "plugin.toml", `version = "0.1.0"`, `version = "0.2.0"`, 11,
			`error[P008]: plugin "my-skill" is not what its manifest says: its version is "0.1.0", the manifest says "0.2.0"`},
		{"the manifest promises a role", "plugin.toml", `"evaluate"]`, `"evaluate", "judge"]`, 11,
			`error[P008]: plugin "my-skill" is not what its manifest says: its roles are build, evaluate, the manifest says build, evaluate, judge`},
		{"the manifest has a key too many", "plugin.toml", "abi = 1", "abi = 1\ncapabilites = []", 11,
			`error[P003]: unknown key "capabilites"`},
		{"it does not compile", "main.go", evaluate, evaluate + "\tscore := 1\n", 11,
			`error[P010]: plugin "DIR" does not compile: declared and not used: score`},
		{"a capability that is not declared", "main.go", "_ sdk.Host, " + evaluate, "h sdk.Host, " + evaluate + "\th.Run(context.Background(), &sdk.RunRequest{Commands: []sdk.Command{{Shell: \"true\"}}})\n", 1,
			`FAIL  capabilities   it asks for "sandbox", which plugin.toml does not declare`},
		{"no end", "main.go", evaluate, evaluate + "\tfor r.Output.Message != \"\" {\n\t}\n", 1,
			"FAIL  limits         task my-skill/hand-clamp: only words: no answer within 3s"},
		{"a panic", "main.go", evaluate, evaluate + "\t_ = r.Output.Changes[0]\n", 1,
			"FAIL  empty answer   task my-skill/hand-clamp: an empty answer: an error and no verdict: evaluate: my-skill 0.1.0: my-skill/hand-clamp: panic: runtime error: index out of range [0] with length 0"},
		{"more than all", "main.go", "Score: 1,", "Score: 1.5,", 1,
			"FAIL  gold           task my-skill/hand-clamp: the reference: an error and no verdict: evaluate: my-skill 0.1.0: my-skill/hand-clamp: the answer makes no sense: score is 1.5, want 0 to 1"},
		{"the hidden part in a patch of the workspace", "main.go", "Workspace: r.Record.Workspace,",
			`Workspace: sdk.Workspace{Files: r.Record.Workspace.Files, Patches: []string{"--- /dev/null\n+++ b/.task\n@@ -0,0 +1 @@\n+answer=" + answer + "\n"}},`, 1,
			"FAIL  sandbox        task my-skill/hand-clamp: .task holds the hidden part"},
		{"a verdict by the machine", "main.go", `Reason: "the number is right"`, `Reason: "the number is right on " + runtime.GOOS`, 1,
			`FAIL  native = wasm  my-skill/hand-clamp, the reference: score 1, components [], "the number is right on wasip1" and score 1, components [], "the number is right on linux"`},
	} {
		t.Run(d.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "my-skill")
			if _, err := scaffold.New(t.Context(), scaffold.Options{Name: "my-skill", Dir: dir}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, d.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), d.old); n != 1 {
				t.Fatalf("%q is there %d times, want once", d.old, n)
			}
			broken := strings.Replace(string(text), d.old, d.new, 1)
			if strings.Contains(d.new, "runtime.") {
				broken = strings.Replace(broken, `"context"`, "\"context\"\n\t\"runtime\"", 1)
			}
			if err := os.WriteFile(file, []byte(broken), 0o644); err != nil {
				t.Fatal(err)
			}
			args := []string{"plugin", "test", dir, "-n", "1", "--repeats", "2"}
			if d.name == "no end" {
				args = append(args, "--timeout", "3s")
			}
			var out, complaint bytes.Buffer
			code := execute(args, strings.NewReader(""), &out, &complaint)
			said := strings.ReplaceAll(out.String()+complaint.String(), dir, "DIR")
			if code != d.code || !strings.Contains("\n"+said, "\n"+d.says) {
				t.Errorf("exit code %d, want %d, and no line\n%s\nin\n%s", code, d.code, d.says, said)
			}
		})
	}
}

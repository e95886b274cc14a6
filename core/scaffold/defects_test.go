package scaffold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/sdktest"
)

// evaluate is where a defect of the evaluator goes.
const evaluate = "r *sdk.EvaluateRequest) (*sdk.Verdict, error) {\n"

// each is where a defect over the files of an answer goes.
const each = "range r.Output.Changes {\n"

// defects are what an author may get wrong in the new skill, by one edit, and what
// the suite says of it.
var defects = []struct {
	name     string
	old, new string
	says     string // check: its line
}{
	{"another name than its tasks have", `return "my-skill", "0.1.0"`, `return "my-skil", "0.1.0"`,
		`keys: task my-skill/hand-clamp: the key does not start with the skill's name my-skil, or its skill "my-skill" is another`},
	{"the reference is worth half", "Score: 1,", "Score: 0.5,",
		"gold: task my-skill/hand-clamp: want 1, got 0.5: the number is right"},
	{"nothing is worth all", `Verdict{Reason: "answer.txt does`, `Verdict{Score: 1, Reason: "answer.txt does`,
		"empty answer: task my-skill/hand-clamp: want 0, got 1: answer.txt does not give the number of functions"},
	{"a panic over nothing", evaluate, evaluate + "\t_ = r.Output.Changes[0]\n",
		"empty answer: task my-skill/hand-clamp: an empty answer: an error and no verdict: panic: runtime error: index out of range [0] with length 0"},
	{"an error for a wrong answer", `return &sdk.Verdict{Reason: "answer.txt does not give the number of functions"}, nil`, "return nil, context.Canceled",
		"malformed: task my-skill/hand-clamp: only words: an error and no verdict: context canceled"},
	{"an error for an episode cut short", evaluate, evaluate + "\tif r.Output.End != \"submitted\" {\n\t\treturn nil, context.Canceled\n\t}\n",
		"malformed: task my-skill/hand-clamp: nothing, ended by timeout: an error and no verdict: context canceled"},
	{"the hidden part in the prompt", `Write the number to answer.txt.",`, `Write the number to answer.txt." + " (answer=" + answer + ")",`,
		"hidden: task my-skill/hand-clamp: (prompt) holds the hidden part"},
	{"the hidden part in the workspace", "Workspace: r.Record.Workspace,",
		`Workspace: sdk.Workspace{Files: append(r.Record.Workspace.Files, sdk.File{Path: ".task", Data: []byte("answer=" + answer)})},`,
		"hidden: task my-skill/hand-clamp: .task holds the hidden part"},
	{"the answer lies there already", "Workspace: r.Record.Workspace,",
		`Workspace: sdk.Workspace{Files: append(r.Record.Workspace.Files, sdk.File{Path: "answer.txt", Data: []byte(answer)})},`,
		"hidden: task my-skill/hand-clamp: answer.txt holds the reference's answer.txt"},
	{"a placeholder left", "How many functions", "How many {kind} functions",
		`prompts: task my-skill/hand-clamp: the placeholder {kind} is left in the prompt of the form "full"`},
	{"other tasks every time", "\tn := 0\n", "\tcalls++\n\tn := calls\n",
		"tasks: task hand-clamp (full): the same request gives other tasks"},
	{"one key for all tasks", `Key: "my-skill/" + r.Record.ID`, `Key: "my-skill/task"`,
		"keys: task my-skill/task: the key is given twice"},
	{"everything is collected", `[]string{"answer.txt"}`, "nil",
		"collect: task my-skill/hand-clamp: it collects everything that the agent changes; name the files of the answer"},
	{"something else is collected", `[]string{"answer.txt"}`, `[]string{"answers.txt"}`,
		"collect: task my-skill/hand-clamp: the reference changes answer.txt, which is not collected"},
	{"more than all", "Score: 1,", "Score: 1.5,",
		"verdicts: task my-skill/hand-clamp: the reference: the score is 1.5, outside [0,1]"},
	{"a component that is no number", `Reason: "the number is right"`,
		`Reason: "the number is right", Components: []sdk.Component{{Name: "share", Value: func(none float64) float64 { return none / none }(0)}}`,
		"verdicts: task my-skill/hand-clamp: the reference: component share is NaN, outside [0,1]"},
	{"no reason", `Reason: "the number is right"`, `Reason: ""`,
		"verdicts: task my-skill/hand-clamp: the reference: score 1 without a reason"},
	{"trusts the message", evaluate, evaluate + "\tif strings.HasPrefix(r.Output.Message, \"Done\") {\n\t\treturn &sdk.Verdict{Score: 1, Reason: \"it is done\"}, nil\n\t}\n",
		"tampering: task my-skill/hand-clamp: success claimed in the message: want 0, got 1: it is done"},
	{"trusts a file that anyone can plant", each, each + "\t\tif strings.Contains(string(c.Data), \"3 passed\") {\n\t\t\treturn &sdk.Verdict{Score: 1, Reason: \"tests passed\"}, nil\n\t\t}\n",
		"tampering: task my-skill/hand-clamp: success claimed in the answer's place: want 0, got 1: tests passed"},
	{"trusts a report that anyone can print", each, each + "\t\tif strings.Contains(string(c.Data), \" ... ok\") {\n\t\t\treturn &sdk.Verdict{Score: 1, Reason: \"tests passed\"}, nil\n\t\t}\n",
		"tampering: task my-skill/hand-clamp: a forged report in the answer's place: want 0, got 1: tests passed"},
	{"takes anything that is long", each, each + "\t\tif len(c.Data) > 1<<20 {\n\t\t\treturn &sdk.Verdict{Score: 1, Reason: \"thorough\"}, nil\n\t\t}\n",
		"malformed: task my-skill/hand-clamp: a line of 4 MiB: want less than 1, got 1: thorough"},
	{"reads past what is there", each, each + "\t\t_ = strings.SplitN(string(c.Data), \"\\n\", 2)[1]\n",
		"malformed: task my-skill/hand-clamp: a line of 4 MiB: an error and no verdict: panic: runtime error: index out of range [1] with length 1"},
	{"takes a removed file for an empty one", each, each + "\t\tif len(c.Data) == 0 {\n\t\t\treturn &sdk.Verdict{Score: 1, Reason: \"nothing is wrong\"}, nil\n\t\t}\n",
		"malformed: task my-skill/hand-clamp: empty files: want less than 1, got 1: nothing is wrong"},
	{"repeats what the agent wrote", each, each + "\t\tif len(c.Data) > 100 {\n\t\t\treturn &sdk.Verdict{Reason: \"not a number: \" + strings.ToValidUTF8(string(c.Data), \"\")}, nil\n\t\t}\n",
		"limits: task my-skill/hand-clamp: a line of 4 MiB: the verdict has 4194323 bytes, more than 65536; cut what the agent wrote"},
	{"a verdict that changes", `Reason: "the number is right"`, `Reason: "the number is right, as at " + strconv.Itoa(func() int { calls++; return calls }())`,
		`repeats: task my-skill/hand-clamp: two verdicts on one answer (reference) differ: score 1, components [], "the number is right, as at 1"; then score 1, components [], "the number is right, as at 4"`},
	{"remembers other answers", evaluate, evaluate + "\tif r.Output.Message != \"\" {\n\t\tcalls++\n\t}\n\tif calls > 0 && len(r.Output.Changes) > 0 {\n\t\treturn &sdk.Verdict{Reason: \"too many words before\"}, nil\n\t}\n",
		`repeats: task my-skill/hand-clamp: two verdicts on one answer (reference) differ: score 1, components [], "the number is right"; then score 0, components [], "too many words before"`},
}

// TestDefectsAreNamed builds the new skill with each defect, all into one program,
// has the suite put to every one of them and compares what it says.
func TestDefectsAreNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my-skill")
	if _, err := New(t.Context(), Options{Name: "my-skill", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	sound := read(t, dir, "main.go")
	var imports, skills strings.Builder
	variant := func(name, text string) {
		// A package of its own, that a program can import.
		for _, edit := range [][2]string{
			{"package main\n", "package " + name + "\n"}, {"func main() { sdk.Main() }\n", "var calls int\n"},
			{"func init() { sdk.Register(skill{}) }\n", "var Skill sdk.Skill = skill{}\n"},
		} {
			text = replaceOnce(t, text, edit[0], edit[1])
		}
		put(t, filepath.Join(dir, name, "skill.go"), text+"\nvar _ = calls\n")
		fmt.Fprintf(&imports, "\t%q\n", "example.com/my-skill/"+name)
		fmt.Fprintf(&skills, "\t\t%s.Skill,\n", name)
	}
	variant("sound", sound)
	for i, d := range defects {
		variant(fmt.Sprintf("defect%d", i), replaceOnce(t, sound, d.old, d.new))
	}
	put(t, filepath.Join(dir, "all", "main.go"), `package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
`+imports.String()+`)

func main() {
	for _, s := range []sdk.Skill{
`+skills.String()+`	} {
		json.NewEncoder(os.Stdout).Encode(sdktest.Examine(context.Background(), sdktest.InProcess(s), sdktest.Options{Declared: []string{}}))
	}
}
`)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./all")
	cmd.Dir = dir
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, complaint.Bytes())
	}
	found := json.NewDecoder(&out)
	next := func() (faults []string) {
		var findings []sdktest.Finding
		if err := found.Decode(&findings); err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Status == sdktest.Failed {
				line, _, _ := strings.Cut(f.Faults[0].String(), "\n")
				faults = append(faults, f.Check+": "+line)
			}
		}
		return faults
	}
	if faults := next(); len(faults) > 0 {
		t.Errorf("the sound skill: %q", faults)
	}
	for _, d := range defects {
		faults := next()
		t.Run(d.name, func(t *testing.T) {
			for _, f := range faults {
				if f == d.says {
					return
				}
			}
			t.Errorf("no line\n%s\namong\n%s", d.says, strings.Join(faults, "\n"))
		})
	}
}

func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is there %d times, want once", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, new, 1)
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

package pocket

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/sdk"
)

// task is what the skill's builder makes of a record, as far as the expert looks.
func task(skill string, it *Item, n int) *sdk.Task {
	r := &it.Record
	t := &sdk.Task{Key: skill + "/" + r.ID, Skill: skill, Record: r.ID, Workspace: r.Workspace}
	places := make([]string, len(r.Targets))
	for i, g := range r.Targets {
		places[i] = g.Path + ":" + g.Name
	}
	switch skill {
	case "localization":
		t.Prompt = "Find the files to change.\n" + r.Problem
	case "editing":
		t.Prompt = "Fix " + strings.Join(places, ", ") + ".\n" + r.Problem
	case "unittest":
		t.Prompt = "Test " + places[0] + ".\nWrite " + r.UnitTestFile + "."
		t.Workspace.Patches = []string{r.Patch}
	case "repro":
		t.Prompt = "Write reproduce.py; it fails until the bug is fixed.\n" + r.Problem
	case "review":
		c := r.Candidates[0]
		if n%2 == 1 {
			c = r.Candidates[1+n/2%(len(r.Candidates)-1)]
		}
		t.Prompt = "Does the diff fix it?\n" + r.Problem + "\n" + c.Patch + "<judgment>YES</judgment> or NO?"
		t.Workspace.Patches = []string{c.Patch}
		t.Reference = &sdk.Reference{Message: judgment(c.Correct)}
	}
	return t
}

// episode is what an expert did: the folder it left, its messages and the tools'.
type episode struct {
	dir          string
	calls, texts []string
	final        string
}

// perform plays an expert with real files and a real shell.
func perform(t *testing.T, p policy.Policy, k *sdk.Task, seed uint64) *episode {
	t.Helper()
	e := &episode{dir: t.TempDir(), texts: []string{k.Prompt}}
	for path, text := range tree(t, &sdk.Record{ID: k.Record, Workspace: k.Workspace}, k.Workspace.Patches...) {
		write(t, e.dir, path, text)
	}
	s, err := p.Open(t.Context(), policy.Opening{ID: k.Key, Task: k, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	observation := ""
	for range 8 {
		turn, err := s.Next(t.Context(), observation)
		if err != nil {
			t.Fatal(err)
		}
		if turn.Call == nil {
			e.final = turn.Text
			e.texts = append(e.texts, turn.Text)
			if _, err := s.Next(t.Context(), ""); diag.KindOf(err) != diag.KindPolicy {
				t.Errorf("%s: after the end: %v", k.Key, err)
			}
			return e
		}
		observation = e.use(t, turn.Call)
		for _, a := range slices.Sorted(maps.Keys(turn.Call.Arguments)) {
			e.texts = append(e.texts, turn.Call.Arguments[a])
		}
		e.texts = append(e.texts, observation)
	}
	t.Fatalf("%s: no end after 8 turns", k.Key)
	return nil
}

func write(t *testing.T, dir, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (e *episode) read(path string) string {
	b, _ := os.ReadFile(filepath.Join(e.dir, path))
	return string(b)
}

func (e *episode) use(t *testing.T, c *policy.Call) string {
	t.Helper()
	a := c.Arguments
	e.calls = append(e.calls, c.Tool+" "+a["command"])
	if c.Tool == policy.ToolBash {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", a["command"])
		cmd.Dir = e.dir
		out, _ := cmd.CombinedOutput()
		return strings.TrimSuffix(string(out), "\n")
	}
	want := append([]string{"command", "path"}, policy.StrReplaceArguments[a["command"]]...)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(a)); c.Tool != policy.ToolStrReplace || !slices.Equal(got, want) {
		t.Fatalf("%s: arguments %v, want %v", c.Tool, got, want)
	}
	switch a["command"] {
	case "create":
		write(t, e.dir, a["path"], a["file_text"]+"\n")
		return "ok"
	case "replace":
		text := e.read(a["path"])
		if n := strings.Count(text, a["old_str"]); n != 1 {
			t.Fatalf("%q is %d times in\n%s", a["old_str"], n, text)
		}
		write(t, e.dir, a["path"], strings.Replace(text, a["old_str"], a["new_str"], 1))
		return "ok"
	}
	return e.read(a["path"])
}

// verdict says whether an episode earned its score.
func verdict(t *testing.T, it *Item, k *sdk.Task, e *episode) bool {
	t.Helper()
	r := &it.Record
	// exits gives which of several folders a script succeeds in.
	exits := func(path string, folders ...map[string]string) []bool {
		var jobs []job
		for _, files := range folders {
			files = maps.Clone(files)
			files[path] = e.read(path)
			jobs = append(jobs, job{Files: files, Script: path})
		}
		var out []bool
		for _, o := range work(t, jobs) {
			out = append(out, o.Exit == 0)
		}
		return out
	}
	switch k.Skill {
	case "localization":
		var want []string
		for _, b := range it.Bugs {
			want = append(want, b.Path)
		}
		return e.read("location.txt") == strings.Join(want, "\n")+"\n"
	case "editing":
		for path, text := range tree(t, r, r.Patch) {
			if e.read(path) != text {
				return false
			}
		}
		return true
	case "unittest":
		folders := []map[string]string{tree(t, r, r.Patch)}
		for _, m := range r.Mutants {
			files := maps.Clone(folders[0])
			files[m.Files[0].Path] = string(m.Files[0].Data)
			folders = append(folders, files)
		}
		ok := exits(r.UnitTestFile, folders...)
		if !ok[0] {
			t.Errorf("%s: the tests fail on correct code:\n%s", k.Key, e.read(r.UnitTestFile))
		}
		return ok[0] && !slices.Contains(ok[1:], true)
	case "repro":
		ok := exits("reproduce.py", tree(t, r), tree(t, r, r.Patch))
		if !ok[1] {
			t.Errorf("%s: the script fails on correct code:\n%s", k.Key, e.read("reproduce.py"))
		}
		return !ok[0] && ok[1]
	}
	return e.final == k.Reference.Message
}

// TestExpert requires that every skill's script earns enough: the cold start is
// what passes.
func TestExpert(t *testing.T) {
	const n = 16
	for _, c := range []struct {
		skill, shape string
		atLeast      int
	}{
		{"localization", ShapeRepository, n},
		{"editing", ShapeRepository, n},
		{"editing", ShapeModule, n},
		{"unittest", ShapeModule, 4},
		{"repro", ShapeModule, 12},
		{"review", ShapeModule, 9},
	} {
		t.Run(c.skill+"/"+c.shape, func(t *testing.T) {
			t.Parallel()
			items := generate(t, Options{Seed: 2, Count: n, Split: SplitTrain, Shape: c.shape})
			p := NewExpert(items, 7)
			passed := 0
			for i, it := range items {
				k := task(c.skill, it, i)
				e := perform(t, p, k, uint64(i))
				if c.skill != "review" && e.final != "Done." {
					t.Errorf("%s: final message %q", k.Key, e.final)
				}
				if verdict(t, it, k, e) {
					passed++
				}
			}
			t.Logf("%d of %d pass", passed, n)
			if passed < c.atLeast {
				t.Errorf("%d of %d pass, want %d", passed, n, c.atLeast)
			}
		})
	}
}

// TestExpertMixes checks that a skill is played in several ways and that guesses
// stay few.
func TestExpertMixes(t *testing.T) {
	items := generate(t, Options{Seed: 4, Count: 300, Split: SplitTrain, Shape: ShapeModule})
	p := NewExpert(items, 1)
	for skill, ways := range map[string]int{"unittest": 2, "repro": 2, "review": 3} {
		scripts := map[string]int{}
		for i, it := range items {
			s, err := p.Open(t.Context(), policy.Opening{Task: task(skill, it, i)})
			if err != nil {
				t.Fatal(err)
			}
			var script []string
			for {
				turn, err := s.Next(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				if turn.Call == nil {
					break
				}
				script = append(script, turn.Call.Tool)
			}
			scripts[strings.Join(script, " ")]++
		}
		if len(scripts) < ways {
			t.Errorf("%s: scripts %v, want %d ways", skill, scripts, ways)
		}
		if skill == "review" && scripts[""] > len(items)*3/10 {
			t.Errorf("%d of %d reviews are guessed", scripts[""], len(items))
		}
	}
}

func TestExpertRepeats(t *testing.T) {
	items := generate(t, Options{Seed: 6, Count: 5, Split: SplitTrain, Shape: ShapeModule})
	for _, it := range items {
		k := task("unittest", it, 0)
		a, b := perform(t, NewExpert(items, 3), k, 9), perform(t, NewExpert(items, 3), k, 9)
		if d := cmp.Diff(a.texts, b.texts); d != "" {
			t.Error(d)
		}
	}
}

func TestExpertRefuses(t *testing.T) {
	items := generate(t, Options{Seed: 6, Count: 1, Split: SplitTrain, Shape: ShapeModule})
	p := NewExpert(items, 0)
	if p.Name() != "expert" || p.Version() != 0 {
		t.Errorf("%s %d", p.Name(), p.Version())
	}
	for name, k := range map[string]*sdk.Task{
		"no task": nil,
		"record":  {Key: "editing/x", Skill: "editing", Record: "x"},
		"skill":   {Key: "cooking/x", Skill: "cooking", Record: items[0].Record.ID},
	} {
		if _, err := p.Open(t.Context(), policy.Opening{ID: "e1", Task: k}); diag.KindOf(err) != diag.KindPolicy {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFragments replaces what the expert would in every file it could meet.
func TestFragments(t *testing.T) {
	short := 0
	for split, shape := range shapes {
		for _, it := range generate(t, Options{Seed: 9, Count: 150, Split: split, Shape: shape}) {
			fixed := tree(t, &it.Record, it.Record.Patch)
			s := &scene{Item: it}
			for _, b := range it.Bugs {
				file := s.file(b.Path)
				for name, edit := range map[string]func(string, string, string) (string, string){"fragment": fragment, "line": wholeLine} {
					old, text := edit(file, b.Before, b.After)
					if strings.Count(file, old) != 1 || strings.Replace(file, old, text, 1) != fixed[b.Path] {
						t.Errorf("%s: %s %q -> %q does not mend\n%s", it.Record.ID, name, old, text, file)
					}
					if name == "fragment" && len(old) < len(strings.TrimSpace(b.Before)) {
						short++
					}
				}
			}
		}
	}
	if short < 450 {
		t.Errorf("%d fragments are shorter than their line", short)
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/valence-rl/valence/core/journal"
)

// outOfTree makes the folder of a plugin that builds against this source tree, as an
// author's would.
func outOfTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	root := repository(t)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	_, requires, _ := strings.Cut(string(mod), "\n")
	all := maps.Clone(files)
	all["go.mod"] = "module example.org/" + filepath.Base(dir) + "\n" + requires +
		"\nrequire github.com/valence-rl/valence v0.0.0\n\nreplace github.com/valence-rl/valence => " + root + "\n"
	all["go.sum"] = string(sum)
	for name, text := range all {
		write(t, filepath.Join(dir, name), text)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// judge is a judge that decides by an expression over the request r.
func judge(t testing.TB, dir, version, verdict string) {
	t.Helper()
	outOfTree(t, dir, map[string]string{
		"plugin.toml": fmt.Sprintf("name = \"exits\"\nversion = %q\nabi = 1\nroles = [\"judge\"]\n", version),
		"main.go": fmt.Sprintf(`package main

import (
	"context"

	"github.com/valence-rl/valence/sdk"
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "exits", %q }

func (skill) Judge(_ context.Context, _ sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	return &sdk.JudgeResponse{Verdict: %s, Confidence: 1, Rationale: "by exit status"}, nil
}
`, version, verdict),
	})
}

const byExit = "r.Before.ExitCode != 0 && r.After.ExitCode == 0"

// copied is a plugin of this tree under another version.
func copied(t testing.TB, plugin, dir, version string) {
	t.Helper()
	from := filepath.Join(repository(t), plugin)
	files := map[string]string{}
	err := filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, "_test.go") {
			return err
		}
		b, err := os.ReadFile(p)
		name, _ := filepath.Rel(from, p)
		files[name] = strings.ReplaceAll(string(b), `"0.1.0"`, fmt.Sprintf("%q", version))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	outOfTree(t, dir, files)
}

// follow starts a training run and passes on what it tells.
func follow(t testing.TB, q *quickstart, p *process) <-chan event {
	t.Helper()
	p.Stdout = nil
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	q.start(t, p)
	told := make(chan event)
	go func() {
		defer close(told)
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			told <- e
		}
	}()
	return told
}

type event struct {
	Type    string
	Step    int
	Skill   string
	Role    string
	By      string
	Outcome string
	Reason  string
	Text    string
}

// until waits for an event that is wanted; the run must not end before.
func until(t testing.TB, p *process, told <-chan event, what string, wanted func(event) bool) event {
	t.Helper()
	for e := range told {
		if wanted(e) {
			return e
		}
	}
	p.Wait()
	t.Fatalf("the run ended before: %s\n%s", what, p.stderr.String())
	return event{}
}

func steps(n int) func(event) bool {
	return func(e event) bool {
		if e.Type == "step" {
			n--
		}
		return n == 0
	}
}

func swap(by, skill string) func(event) bool {
	return func(e event) bool { return e.Type == "swap" && e.By == by && e.Skill == skill }
}

// TestSwap swaps plugins and judges of a run under way from all three sides, refuses
// what is broken, kills the run, and has it go on.
func TestSwap(t *testing.T) {
	adopt(t)
	q := newQuickstart(t, "run.steps=1000", "policy.threads=1")
	dir := t.TempDir()
	toml, err := os.ReadFile(filepath.Join(repository(t), "examples/quickstart/run.toml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "run.toml")
	write(t, file, string(toml))
	exits, never, torn, other := filepath.Join(dir, "exits"), filepath.Join(dir, "never"), filepath.Join(dir, "torn"), filepath.Join(dir, "other")
	judge(t, exits, "0.2.0", byExit)
	judge(t, never, "0.2.0", "false")
	judge(t, torn, "0.2.0", "nonsense")
	copied(t, "plugins/localization", other, "0.2.0")
	for _, p := range []string{exits, never, other} {
		q.plain(t, 0, "plugin", "build", p)
	}

	train := func(sets ...string) *process {
		args := []string{"train", "-c", file, "--progress", "plain", "-o", "jsonl", "--resume"}
		for _, s := range append(slices.Clone(q.sets), sets...) {
			args = append(args, "--set", s)
		}
		return q.bare(t.Context(), t, args...)
	}
	p := train()
	told := follow(t, q, p)
	until(t, p, told, "step 1", steps(1))
	// The run goes on while commands wait for their answers.
	command := func(code int, set string) string {
		t.Helper()
		c := q.bare(t.Context(), t, "plugin", "swap", string(q.folder()), set)
		q.start(t, c)
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		for {
			select {
			case _, ok := <-told:
				if !ok {
					p.Wait()
					t.Fatalf("%s ended the run\n%s", set, p.stderr.String())
				}
			case <-done:
				if got := c.ProcessState.ExitCode(); got != code {
					t.Fatalf("%s: exit code %d, want %d\n%s%s", set, got, code, c.stdout.String(), c.stderr.String())
				}
				return c.stdout.String() + c.stderr.String()
			}
		}
	}
	says := func(text, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q", text, want)
		}
	}
	says(command(0, "repro.judge="+exits), "swapped repro judge: sha256:")
	says(command(0, "repro.judge="+exits), "nothing to swap")
	says(command(11, "repro.judge="+torn), "error[P010]: plugin \""+torn+"\" does not compile: undefined: nonsense\n  --> "+torn+"/main.go:")
	says(command(11, "repro.judge="+other), "cannot serve as a judge")
	says(command(11, "repro.judge="+never), "error[plugin]: try plugin: repro: task repro/")
	says(command(11, "repro.judge="+never), "the reference answer scores 0, want 1")
	says(command(11, "repro.plugin=plugins/editing"), "it builds other training tasks")
	says(command(11, "unittest.config.mutants=99"), `setting "mutants" is "99"`)
	says(command(10, "rpro.judge="+exits), `no skill or suite "rpro"`)
	says(command(10, "repro.weight=3"), `"weight" cannot be swapped`)
	says(command(10, "repro.judge=nowhere"), `there is no plugin at "nowhere"`)

	// The TOML, with a key beside that holds from the next start.
	changed := strings.NewReplacer(`plugin = "plugins/localization"`, fmt.Sprintf("plugin = %q", other), `warmup_steps = 3`, `warmup_steps = 2`)
	tmp := file + ".tmp"
	write(t, tmp, changed.Replace(string(toml)))
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
	said := ""
	until(t, p, told, "the swap by the TOML", func(e event) bool {
		if e.Type == "warning" {
			said += e.Text + "\n"
		}
		return swap(journal.ByFile, "localization")(e)
	})
	says(said, "run.toml: grpo.warmup_steps changed; what is no plugin, judge or setting of one holds from the next start")
	// The judge that a command named is rebuilt in its place.
	judge(t, exits, "0.3.0", byExit)
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, p, told, "the swap by the signal", swap(journal.BySignal, "repro"))
	// A TOML that cannot be read changes nothing.
	write(t, file, "[run\n")
	until(t, p, told, "the refusal of what is no TOML", func(e event) bool { return e.Type == "swap" && e.By == journal.ByFile && e.Outcome == journal.Refused })
	write(t, file, changed.Replace(string(toml)))
	until(t, p, told, "two steps after the last swap", steps(2))
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range told {
	}
	p.Wait()
	orphans(t)

	before := digestsOf(t, q.folder())
	s, _, err := q.folder().State()
	if err != nil {
		t.Fatal(err)
	}
	last := s.Step + 2
	p = train(fmt.Sprintf("run.steps=%d", last))
	q.start(t, p)
	p.end(t, 0)
	q.outcome(t, last)
	q.leavesNothing(t)

	swaps := checkSwaps(t, q.folder())
	want := []string{
		"command repro judge accepted", "command repro judge refused", "command repro judge refused", "command repro judge refused", "command repro judge refused",
		"command repro evaluate refused", "command unittest evaluate refused", "command repro  refused",
		"file localization evaluate accepted", "signal repro judge accepted", "file   refused",
	}
	if !slices.Equal(swaps, want) {
		t.Errorf("swaps\n%s\nwant\n%s", strings.Join(swaps, "\n"), strings.Join(want, "\n"))
	}
	if after := digestsOf(t, q.folder()); after != before {
		t.Errorf("the resumed run went on with\n%s\nwant\n%s", after, before)
	}
	config, err := os.ReadFile(q.folder().Path("config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{exits, other} {
		says(string(config), ref)
	}
	shown := q.plain(t, 0, "report", string(q.folder())).stdout.String()
	says(shown, "\nswaps\n")
	says(shown, "refused: error[P010]: plugin")
	page, err := os.ReadFile(q.folder().Path("report.html"))
	if err != nil {
		t.Fatal(err)
	}
	says(string(page), `<g class="change">`)
	says(q.plain(t, 10, "plugin", "swap", string(q.folder()), "repro.judge="+exits).stderr.String(), "error[C061]: no process works on")
	says(q.plain(t, 10, "plugin", "swap", dir, "repro.judge="+exits).stderr.String(), "no run there")
}

// digestsOf is plugins.lock.
func digestsOf(t testing.TB, dir journal.Dir) string {
	t.Helper()
	b, err := os.ReadFile(dir.Path("plugins.lock"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkSwaps compares what made each stored verdict with what the swaps say, and
// lists the swaps.
func checkSwaps(t testing.TB, dir journal.Dir) []string {
	t.Helper()
	swaps, err := dir.Swaps()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range swaps {
		out = append(out, strings.Join([]string{s.By, s.Skill, s.Role, s.Outcome}, " "))
		if s.Outcome == journal.Refused && (s.Reason == "" || s.Dispatch != -1) {
			t.Errorf("%+v", s)
		}
	}
	made := map[string]int{} // skill, role and digest → episodes
	groups := map[int64]string{}
	all, err := dir.Steps()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range all {
		for e, err := range dir.Episodes(st.Step) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Outcome != journal.Scored {
				continue
			}
			set := fmt.Sprint(e.Plugins)
			if was := groups[e.Dispatch]; was != "" && was != set {
				t.Errorf("group %d mixes %s and %s", e.Dispatch, was, set)
			}
			groups[e.Dispatch] = set
			for role, digest := range e.Plugins {
				made[e.Skill+role+digest]++
				for _, s := range swaps {
					if s.Outcome != journal.Accepted || s.Skill != e.Skill || s.Role != role {
						continue
					}
					if e.Dispatch < s.Dispatch && digest == s.To || e.Dispatch >= s.Dispatch && digest == s.From {
						t.Errorf("group %d has %s, but %+v", e.Dispatch, digest, s)
					}
				}
			}
		}
	}
	for _, s := range swaps {
		if s.Outcome == journal.Accepted && (made[s.Skill+s.Role+s.From] == 0 || made[s.Skill+s.Role+s.To] == 0) {
			t.Errorf("one side of a swap made no verdict: %+v", s)
		}
	}
	return out
}

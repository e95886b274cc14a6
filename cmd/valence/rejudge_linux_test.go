package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/scoring/modeltest"
	"github.com/valence-rl/valence/sdk"
)

const storedRun = `
[run]
name = "stored"
[policy]
path = "none"
[grpo]
group_size = 4
[async]
retries = 0
[[source]]
kind = "pocket"
seed = 5
count = 4
[skills.repro]
plugin = "plugins/repro"
judge = "plugins/judges/rules"
[skills.review]
plugin = "plugins/review"
`

// stored makes a run of two steps with a group each. Of every group the episodes 0
// and 2 are right and the others empty, but the stored scores of the second group say
// otherwise of the episodes 1 and 2.
func stored(t *testing.T, q *quickstart) {
	t.Helper()
	text := strings.ReplaceAll(storedRun, `"plugins/`, `"`+repository(t)+`/plugins/`)
	cfg, err := config.Parse("stored.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := run.Open(t.Context(), cfg, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tasks := s.Skills[0].Binding().Train
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := q.folder()
	if err := dir.WriteFile("config.toml", config.Resolved(cfg)); err != nil {
		t.Fatal(err)
	}
	for n, scores := range [][]float64{{1, 0, 1, 0}, {1, 1, 0, 0}} {
		var episodes []journal.Episode
		for i, score := range scores {
			e := journal.Episode{
				ID: []string{"a", "b"}[n] + string(rune('0'+i)), Step: n + 1, Dispatch: int64(n), Index: i, Task: tasks[n].Key, Skill: "repro",
				End: "submitted", Outcome: journal.Scored, Score: score, Reason: "as stored", Output: &sdk.Output{},
				Plugins: map[string]string{"evaluate": "sha256:" + strings.Repeat("e", 64)},
			}
			if i%2 == 0 {
				e.Output = &sdk.Output{Changes: tasks[n].Reference.Changes, Message: tasks[n].Reference.Message}
			}
			episodes = append(episodes, e)
		}
		// What has no verdict, and what is another skill's, is not looked at.
		episodes = append(episodes, journal.Episode{ID: "lost", Dispatch: int64(n), Index: 3, Task: tasks[n].Key, Skill: "repro", Outcome: "sandbox"},
			journal.Episode{ID: "other", Dispatch: 9, Task: "review/x", Skill: "review", Outcome: journal.Scored, Output: &sdk.Output{}})
		if err := dir.WriteStep(journal.Step{Step: n + 1}, episodes); err != nil {
			t.Fatal(err)
		}
	}
}

var digests = regexp.MustCompile(`sha256:[0-9a-f]{12}…`)

func TestRejudge(t *testing.T) {
	adopt(t)
	q := newQuickstart(t)
	q.runs = filepath.Dir(string(q.folder()))
	stored(t, q)
	dir := t.TempDir()
	never, down, result := filepath.Join(dir, "never"), filepath.Join(dir, "down"), filepath.Join(dir, "result.json")
	judge(t, never, "0.2.0", "false")
	judge(t, down, "0.2.0", `func() bool { panic("down") }()`)
	before := tree(t, string(q.folder()))
	run := func(code int, args ...string) string {
		t.Helper()
		p := q.plain(t, code, append([]string{"rejudge", string(q.folder()), "--progress", "none"}, args...)...)
		if code == 10 || code == 1 {
			return p.stderr.String()
		}
		return digests.ReplaceAllString(p.stdout.String(), "sha256:…")
	}
	golden := func(got, want string) {
		t.Helper()
		if d := cmp.Diff(strings.TrimPrefix(want, "\n"), got); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	}

	golden(run(0, "--skill", "repro"), `
repro of stored, steps 1 to 2: 8 episodes scored again
  before  evaluate sha256:…  8 episodes
  after   evaluate sha256:…, judge sha256:…

agreement   75.0%, Cohen's kappa 0.500
mean score  0.500 → 0.500
rewards     2 of 8 changed, by 0.500 on average over all
advantages  2 changed, by 0.667 on average over all; 2 (25.0%) change sign
groups      2, with a signal 2 → 2

before \ after  below 0.5  0.5 and above
below 0.5               3              1
0.5 and above           1              3

EPISODE  STEP  TASK                           BEFORE  AFTER  REASONS
b1          2  repro/pocket-train-module-5-1       1      0  as stored → reproduce.py was not written
b2          2  repro/pocket-train-module-5-1       0      1  as stored → the script fails with AssertionError and succeeds on the fi…
`)
	// A judge that says no to everything, on the first step.
	golden(run(0, "--skill", "repro", "--judge", never, "--step", "..1", "--limit", "1"), `
repro of stored, steps 1 to 1: 4 episodes scored again
  before  evaluate sha256:…  4 episodes
  after   evaluate sha256:…, judge sha256:…

agreement   50.0%, Cohen's kappa 0.000
mean score  0.500 → 0.000
rewards     2 of 4 changed, by 1.000 on average over all
advantages  4 changed, by 1.333 on average over all; 0 (0.0%) change sign
groups      1, with a signal 1 → 0

before \ after  below 0.5  0.5 and above
below 0.5               2              0
0.5 and above           2              0

EPISODE  STEP  TASK                           BEFORE  AFTER  REASONS
a0          1  repro/pocket-train-module-5-0       1      0  as stored → by exit status
and 1 more; --limit shows them
`)
	// A judge that fails gives no verdict; what it was not asked about is compared.
	golden(run(3, "--skill", "repro", "--judge", down, "-n", "1"), `
repro of stored, steps 1 to 1: 2 episodes scored again
  before  evaluate sha256:…  2 episodes
  after   evaluate sha256:…, judge sha256:…

agreement   100.0%, Cohen's kappa undefined: one answer throughout
mean score  0.000 → 0.000
rewards     0 of 2 changed, by 0.000 on average over all
advantages  0 changed, by 0.000 on average over all; 0 (0.0%) change sign
groups      1, with a signal 0 → 0

before \ after  below 0.5  0.5 and above
below 0.5               2              0
0.5 and above           0              0

warning: episodes without a verdict, because the infrastructure failed: 2 (judge 2); they are not counted above
  the first: evaluate: repro/pocket-train-module-5-0: evaluate: repro 0.1.0: repro/pocket-train-module-5-0: ask judge: repro: judge: exits 0.2.0: panic: down
`)
	// A judge that asks a model, which the run has none of: the command line names it.
	server := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) {
		modeltest.Says(w, `{"rationale":"as the logs show","verdict":false,"confidence":1}`)
	})
	llm := filepath.Join(repository(t), "plugins/judges/llm")
	for want, args := range map[string][]string{
		"model: 2 calls, 2 answers cached, 2": {"--set", "model.base_url=" + server.URL, "--set", "model.name=m", "--set", `model.cache=""`, "--set", "model.concurrency=1"},
		"the first: evaluate: repro/pocket-train-module-5-0: evaluate: repro 0.1.0: repro/pocket-train-module-5-0: ask judge: repro: judge: llm 0.1.0: ask model: repro: no model is configured; set [model] base_url and name": nil,
	} {
		code := 0
		if args == nil {
			code = 3
		}
		if got := run(code, append([]string{"--skill", "repro", "--judge", llm}, args...)...); !strings.Contains(got, want) || code == 0 && !strings.Contains(got, "mean score  0.500 → 0.000") {
			t.Errorf("want %q:\n%s", want, got)
		}
	}

	run(0, "--skill", "repro", "-o", "json", "--out", result)
	b, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Episodes  int
		Agreement struct{ Kappa *float64 }
		Differ    []struct{ ID string }
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Episodes != 8 || r.Agreement.Kappa == nil || *r.Agreement.Kappa != 0.5 || len(r.Differ) != 2 {
		t.Errorf("%s: %v", b, err)
	}
	for _, c := range []struct{ args, want string }{
		{"--skill nothing", "the run trains no such skill; it trains [repro review]"},
		{"--skill repro --judge plugins/repro", "cannot serve as a judge"},
		{"--skill repro --judge nowhere", `there is no plugin at "nowhere"`},
		{"--skill repro --step 7..9", "no stored episode of these steps"},
		{"--skill repro --step 2..1", "it ends before it begins"},
		{"--skill repro --step x", "want A..B"},
	} {
		p := q.bare(t.Context(), t, append([]string{"rejudge", string(q.folder())}, strings.Fields(c.args)...)...)
		q.start(t, p)
		p.Wait()
		if code := p.ProcessState.ExitCode(); code == 0 || code == 3 || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%s: exit code %d\n%s", c.args, code, p.stderr.String())
		}
	}
	if after := tree(t, string(q.folder())); after != before {
		t.Errorf("the run was written to:\n%s", cmp.Diff(before, after))
	}
}

// tree lists what is below a folder, with the bytes.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		b.WriteString(p + "\n" + string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

package swebench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/swebench"
	"github.com/valence-rl/valence/sdk/testlog"
)

// question is what official.py is asked; answer is what it says.
type question struct {
	ID         string   `json:"id"`
	LogParser  string   `json:"log_parser"`
	EvalType   string   `json:"eval_type"`
	FailToPass []string `json:"fail_to_pass"`
	PassToPass []string `json:"pass_to_pass"`
	Log        string   `json:"log"`
	Patch      *string  `json:"patch"`
}

type answer struct {
	Report   string      `json:"report"`
	Statuses [][2]string `json:"statuses"`
	Error    string      `json:"error"`
}

func (q *question) spec() *swebench.Spec {
	return &swebench.Spec{ID: q.ID, LogParser: q.LogParser, EvalType: q.EvalType, FailToPass: q.FailToPass, PassToPass: q.PassToPass}
}

// harness starts official.py where the official harness is installed: under
// VALENCE_SWEBENCH_PYTHON, else under python3. Without it the test says so and ends.
func harness(t *testing.T) (ask func(q any) answer) {
	t.Helper()
	python := os.Getenv("VALENCE_SWEBENCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	const want = "5.0.2"
	version, err := exec.Command(python, "testdata/official.py", "--version").Output()
	if got := strings.TrimSpace(string(version)); err != nil || got != want {
		t.Skipf("not compared with the official harness: %s has no swebench %s (%v, %q); pip install swebench==%s, and name that Python in VALENCE_SWEBENCH_PYTHON", python, want, err, got, want)
	}
	cmd := exec.Command(python, "testdata/official.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("official.py: %v", err)
		}
	})
	lines := bufio.NewReader(out)
	return func(q any) answer {
		t.Helper()
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(b, '\n')); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// TestReportsAreTheHarnesss compares report.json, byte for byte, and what the
// parsers read, on the published logs as they are, in the form of version 5, with
// exit statuses, cut short, and as fail_only.
func TestReportsAreTheHarnesss(t *testing.T) {
	ask := harness(t)
	patch := "diff"
	compared, invalid := 0, 0
	logs(t, func(p *published) {
		s := p.spec(t)
		whole := fifth(p.Log, "1")
		for _, q := range []question{
			{EvalType: p.EvalType, Log: p.Log, Patch: &patch},
			{EvalType: p.EvalType, Log: fifth(p.Log, "0"), Patch: &patch},
			{EvalType: p.EvalType, Log: whole, Patch: &patch},
			{EvalType: p.EvalType, Log: whole[:len(whole)*2/3] + "\n>>>>> End Test Output\n", Patch: &patch},
			{EvalType: p.EvalType, Log: whole[:len(whole)/2], Patch: &patch},
			{EvalType: swebench.FailOnly, Log: whole, Patch: &patch},
			{EvalType: p.EvalType, Log: strings.ReplaceAll(fifth(p.Log, "0"), "\n", "\r\n")},
		} {
			q.ID, q.LogParser, q.FailToPass, q.PassToPass = s.ID, s.LogParser, s.FailToPass, s.PassToPass
			compare(t, &q, ask(&q))
			compared++
			if run, err := swebench.Read(q.spec(), q.Log); err != nil || run.Outcome != swebench.Graded {
				invalid++
			}
		}
	})
	t.Logf("%d logs compared, %d of them not to be graded", compared, invalid)
}

func compare(t *testing.T, q *question, a answer) {
	t.Helper()
	if a.Error != "" {
		t.Errorf("%s: the harness fails: %s", q.ID, a.Error)
		return
	}
	run, err := swebench.Read(q.spec(), q.Log)
	if err != nil {
		t.Fatal(err)
	}
	if q.Patch == nil {
		run = nil
	}
	if got := swebench.NewReport(q.spec(), run).JSON(); !bytes.Equal(got, []byte(a.Report)) {
		t.Errorf("%s: our report is\n%s\nthe harness's\n%s", q.ID, clip(string(got)), clip(a.Report))
	}
	results, err := testlog.Parse(parserOf(q), q.Log)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for id, s := range results.All() {
		want := [2]string{"nothing"}
		if i < len(a.Statuses) {
			want = a.Statuses[i]
		}
		if id != want[0] || s.String() != known(want[1]) {
			t.Errorf("%s: %s: test %d is %q %s, want %q", q.ID, q.LogParser, i, id, s, want)
			return
		}
		i++
	}
	if i != len(a.Statuses) {
		t.Errorf("%s: %s: %d tests, want %d", q.ID, q.LogParser, i, len(a.Statuses))
	}
}

// parserOf is the format that [swebench.Read] takes for two repositories that have
// more than one.
func parserOf(q *question) string {
	switch q.LogParser + q.ID[len(q.ID)-5:] {
	case "parse_log_jekyll-9141":
		return "minitest"
	case "parse_log_jekyll-8761":
		return "cucumber"
	case "parse_log_immutable_js-2005":
		return "jest_json"
	case "parse_log_immutable_js-2006":
		return "parse_log_jest"
	}
	return q.LogParser
}

// known gives our word for a status that is none of the harness's own, such as
// "ERROR:".
func known(status string) string {
	switch status {
	case "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL":
		return status
	}
	return "UNCLEAR"
}

func clip(s string) string {
	if len(s) > 2000 {
		return s[:2000] + " …"
	}
	return s
}

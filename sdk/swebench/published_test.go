package swebench_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/sdk/swebench"
)

// published is one log and the verdict that was published for it.
type published struct {
	InstanceID string `json:"instance_id"`
	Repo       string `json:"repo"`
	LogParser  string `json:"log_parser"`
	EvalType   string `json:"eval_type"`
	FailToPass string `json:"FAIL_TO_PASS"`
	PassToPass string `json:"PASS_TO_PASS"`
	Run        string `json:"run"`
	Resolved   bool   `json:"resolved"`
	Log        string `json:"log"`
}

func (p *published) spec(t testing.TB) *swebench.Spec {
	t.Helper()
	s := &swebench.Spec{ID: p.InstanceID, LogParser: p.LogParser, EvalType: p.EvalType}
	for list, into := range map[string]*[]string{p.FailToPass: &s.FailToPass, p.PassToPass: &s.PassToPass} {
		if err := json.Unmarshal([]byte(list), into); err != nil {
			t.Fatalf("%s: %v", p.InstanceID, err)
		}
	}
	return s
}

// logs calls visit for each published log. VALENCE_SWEBENCH_LOGS names another file
// of the same form to read in place of the repository's.
func logs(t testing.TB, visit func(p *published)) (n int) {
	t.Helper()
	path := os.Getenv("VALENCE_SWEBENCH_LOGS")
	if path == "" {
		path = "testdata/swebench-logs.jsonl.zst"
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for lines := bufio.NewReaderSize(z, 1<<20); ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return n
		}
		p := new(published)
		if err := json.Unmarshal(line, p); err != nil {
			t.Fatalf("%s:%d: %v", path, n+1, err)
		}
		visit(p)
		if err != nil {
			return n + 1
		}
	}
}

// TestPublishedVerdicts grades every published log and wants the published verdict,
// and that of the same tests in the form of version 5.
func TestPublishedVerdicts(t *testing.T) {
	repos, outcomes := map[string]int{}, map[string]int{}
	n := logs(t, func(p *published) {
		repos[p.Repo]++
		s := p.spec(t)
		for form, read := range map[string]func() (*swebench.Run, error){
			"first": func() (*swebench.Run, error) { return swebench.ReadFirst(s, p.Log) },
			"fifth": func() (*swebench.Run, error) { return swebench.Read(s, fifth(p.Log, "")) },
		} {
			run, err := read()
			if err != nil {
				t.Fatalf("%s %s: %v", p.InstanceID, p.Run, err)
			}
			if got := run.Resolution == swebench.Full; got != p.Resolved {
				t.Errorf("%s %s: %s: resolved = %v, published %v (%s)", p.InstanceID, p.Run, form, got, p.Resolved, run.Outcome)
			}
			score, err := run.Score()
			if score != 0 && !p.Resolved || score != 1 && p.Resolved || (err == nil) != (run.Fault() == swebench.Prediction) {
				t.Errorf("%s %s: %s: score %g, %v (%s)", p.InstanceID, p.Run, form, score, err, run.Outcome)
			}
			outcomes[form+": "+run.Outcome.String()]++
		}
	})
	t.Logf("%d logs of %d repositories: %v", n, len(repos), outcomes)
	if n < 518 && os.Getenv("VALENCE_SWEBENCH_LOGS") == "" {
		t.Errorf("%d logs were read", n)
	}
}

// fifth brings a log of the first version into the form of the fifth: markers around
// the tests' output, and an exit status behind it unless that is "".
func fifth(log, status string) string {
	const applied = ">>>>> Applied Patch (pred)"
	if i := strings.LastIndex(log, applied); i >= 0 {
		log = log[i+len(applied):]
	}
	log = fmt.Sprintf("+ : '>>>>> Start Test Output'\n%s\n+ : '>>>>> End Test Output'\n", log)
	if status != "" {
		log += ">>>>> Test Exit Code: " + status + "\n"
	}
	return log
}

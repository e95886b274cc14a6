package swebench_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/swebench"
)

func TestReport(t *testing.T) {
	s := swebench.Spec{ID: "o__r-1", LogParser: "parse_log_django", FailToPass: []string{"é \"q\"\t\\😀\x7f\xff"}, PassToPass: []string{"a", "b"}}
	run, err := swebench.Read(&s, within("a ... ok"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
    "o__r-1": {
        "patch_is_None": false,
        "patch_exists": true,
        "patch_successfully_applied": true,
        "resolved": false,
        "infra_failure": false,
        "tests_status": {
            "FAIL_TO_PASS": {
                "success": [],
                "failure": [
                    "\u00e9 \"q\"\t\\\ud83d\ude00\u007f\ufffd"
                ]
            },
            "PASS_TO_PASS": {
                "success": [
                    "a"
                ],
                "failure": [
                    "b"
                ]
            },
            "FAIL_TO_FAIL": {
                "success": [],
                "failure": []
            },
            "PASS_TO_FAIL": {
                "success": [],
                "failure": []
            }
        }
    }
}`
	if got := string(swebench.NewReport(&s, run).JSON()); got != want {
		t.Errorf("got %s", got)
	}
	none := `{
    "o__r-1": {
        "patch_is_None": true,
        "patch_exists": false,
        "patch_successfully_applied": false,
        "resolved": false,
        "infra_failure": false
    }
}`
	if got := string(swebench.NewReport(&s, nil).JSON()); got != none {
		t.Errorf("got %s", got)
	}
	if run, err = swebench.Read(&s, within("Cannot allocate memory")); err != nil {
		t.Fatal(err)
	}
	broken := strings.NewReplacer(`"patch_is_None": true`, `"patch_is_None": false`, `"patch_exists": false`, `"patch_exists": true`,
		`"infra_failure": false`, "\"infra_failure\": true,\n        \"infra_failure_reason\": \"out_of_memory\"").Replace(none)
	if got := string(swebench.NewReport(&s, run).JSON()); got != broken {
		t.Errorf("got %s", got)
	}
}

// runs are the predictions of a run over a small data set; files is what the harness
// finds in their folders.
var runs = []struct {
	id, patch string
	files     map[string]string
	state     swebench.State
}{
	{"resolved", "d", map[string]string{"report.json": `{"resolved": {"resolved": true}}`, "test_output.txt": "Killed"}, swebench.Resolved},
	{"unresolved", "d", map[string]string{"report.json": `{"unresolved": {"resolved": false}}`, "test_output.txt": "FAILED"}, swebench.Unresolved},
	{"memory", "d", map[string]string{"report.json": `{"memory": {"resolved": false}}`, "test_output.txt": "x\nKilled\n"}, swebench.Unresolved},
	{"module", "d", map[string]string{"report.json": `{"module": {"resolved": false}}`, "test_output.txt": "ModuleNotFoundError: x"}, swebench.Unresolved},
	{"late", "d", map[string]string{"test_output.txt": "x\n\nTimeout error: 1800 seconds exceeded."}, swebench.NotReported},
	{"no-image", "d", map[string]string{"run_instance.log": "Error response from daemon: x"}, swebench.NotReported},
	{"nothing", "d", nil, swebench.NotReported},
	{"empty-report", "d", map[string]string{"report.json": " \n"}, swebench.Unreadable},
	{"bad-report", "d", map[string]string{"report.json": "{", "test_output.txt": "no tests ran"}, swebench.Unreadable},
	{"empty-patch", "", nil, swebench.NotReported},
	{"elsewhere-é", "d", nil, swebench.NotReported},
}

func instances() (out []string) {
	for _, r := range runs {
		if r.id != "elsewhere-é" {
			out = append(out, r.id)
		}
	}
	return append(out, "not-tried")
}

func runReport() []byte {
	var all []swebench.Submission
	for _, r := range runs {
		var texts []string
		for _, name := range []string{"test_output.txt", "run_instance.log"} {
			if text, ok := r.files[name]; ok {
				texts = append(texts, text)
			}
		}
		all = append(all, swebench.Submission{ID: r.id, Empty: r.patch == "", State: r.state, Signature: swebench.Classify(texts...)})
	}
	return swebench.NewRunReport(instances(), all).JSON()
}

func TestRunReport(t *testing.T) {
	var got struct {
		Total      int               `json:"total_instances"`
		Submitted  int               `json:"submitted_instances"`
		Completed  []string          `json:"completed_ids"`
		Incomplete []string          `json:"incomplete_ids"`
		Empty      []string          `json:"empty_patch_ids"`
		Resolved   []string          `json:"resolved_ids"`
		Unresolved []string          `json:"unresolved_ids"`
		Infra      []string          `json:"infra_failure_ids"`
		Ambiguous  []string          `json:"ambiguous_failure_ids"`
		Reasons    map[string]string `json:"failure_reasons"`
		Errors     []string          `json:"error_ids"`
		Version    int               `json:"schema_version"`
	}
	if err := json.Unmarshal(runReport(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Total != 11 || got.Submitted != 11 || got.Version != 2 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		what string
		got  []string
		want string
	}{
		{"completed", got.Completed, "bad-report empty-report memory module resolved unresolved"},
		{"incomplete", got.Incomplete, "not-tried"},
		{"empty", got.Empty, "empty-patch"},
		{"resolved", got.Resolved, "resolved"},
		{"unresolved", got.Unresolved, "memory module unresolved"},
		{"infrastructure", got.Infra, "memory no-image"},
		{"ambiguous", got.Ambiguous, "bad-report late module"},
		{"errors", got.Errors, "bad-report empty-report late no-image nothing"},
	} {
		if s := strings.Join(c.got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.what, s, c.want)
		}
	}
	if got.Reasons["late"] != "tests_timed_out" || len(got.Reasons) != 5 {
		t.Errorf("reasons: %v", got.Reasons)
	}
}

// TestRunReportIsTheHarnesss compares the run's report with the harness's, byte for
// byte, on the same folders.
func TestRunReportIsTheHarnesss(t *testing.T) {
	ask := harness(t)
	type prediction struct {
		ID    string            `json:"id"`
		Patch string            `json:"patch"`
		Files map[string]string `json:"files"`
	}
	var q struct {
		Run       []prediction `json:"run"`
		Instances []string     `json:"instances"`
	}
	for _, r := range runs {
		files := r.files
		if files == nil {
			files = map[string]string{}
		}
		q.Run = append(q.Run, prediction{r.id, r.patch, files})
	}
	q.Instances = instances()
	a := ask(&q)
	if got := string(runReport()); a.Error != "" || got != a.Report {
		t.Errorf("%s: ours is\n%s\nthe harness's\n%s", a.Error, got, a.Report)
	}
}

package formats

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/sdk"
)

const official123 = "testdata/swebench-rows.jsonl.zst"

// imported gives all items of sources.
func imported(t *testing.T, o Options, paths ...string) (recs []*sdk.Record, bad []*Bad) {
	t.Helper()
	sources, err := Sources(paths)
	if err != nil {
		t.Fatal(err)
	}
	err = Import(t.Context(), sources, o, func(i Item) error {
		if i.Bad != nil {
			bad = append(bad, i.Bad)
		} else {
			recs = append(recs, i.Record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return recs, bad
}

// Every official row becomes a record; the record becomes the row again, but for lists
// of tests that were the JSON of a list; and that row becomes the same record.
func TestOfficialRows(t *testing.T) {
	recs, bad := imported(t, Options{}, official123)
	if len(recs) != 123 || len(bad) != 0 {
		t.Fatalf("%d records, bad: %v", len(recs), bad)
	}
	dir := t.TempDir()
	w, _, err := records.Create(filepath.Join(dir, "r.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := w.Append(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	kept, err := records.Read(filepath.Join(dir, "r.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []byte
	for _, rec := range kept {
		row, err := SWEBenchRow(rec)
		if err != nil {
			t.Fatalf("%s: %v", rec.ID, err)
		}
		lines = append(append(lines, row...), '\n')
	}
	again := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(again, lines, 0o644); err != nil {
		t.Fatal(err)
	}
	back, bad := imported(t, Options{}, again)
	if len(back) != 123 || len(bad) != 0 {
		t.Fatalf("%d records, bad: %v", len(back), bad)
	}
	for i := range back {
		if d := records.Differences(recs[i], back[i]); len(d) > 0 {
			t.Errorf("%s differs in %v", recs[i].ID, d)
		}
	}
	want, got := all(t, official123), all(t, again)
	for i := range want {
		if !reflect.DeepEqual(want[i], got[i]) {
			t.Errorf("row %d is not the official one", i+1)
		}
	}
}

// all reads rows with lists in the place of their JSON.
func all(t *testing.T, path string) (out []map[string]any) {
	t.Helper()
	r, err := rows.Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		raw, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		fields, err := raw.Fields()
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]any{}
		for _, f := range fields {
			m[f.Name] = f.Value.Text
			text := f.Value.JSON
			if strings.HasSuffix(f.Name, "_TO_PASS") && f.Value.IsText() {
				text = []byte(f.Value.Text)
			}
			if text != nil {
				var v any
				if err := json.Unmarshal(text, &v); err != nil {
					t.Fatal(err)
				}
				m[f.Name] = v
			}
		}
		out = append(out, m)
	}
}

// What a record of an official row has.
func TestOfficialRecords(t *testing.T) {
	recs, _ := imported(t, Options{}, official123)
	count := map[string]int{}
	for _, rec := range recs {
		count[rec.Language]++
		if rec.Workspace.Image == "" || rec.Workspace.Dir != "/testbed" || rec.Source != "swebench" || rec.LogParser == "" || len(rec.FailToPass) == 0 || len(rec.TestFiles) == 0 {
			t.Errorf("%s: image %q, dir %q, parser %q, %d fail to pass, %d test files", rec.ID, rec.Workspace.Image, rec.Workspace.Dir, rec.LogParser, len(rec.FailToPass), len(rec.TestFiles))
		}
		c := rec.TestCommand
		if strings.Contains(c, "git ") || strings.Contains(c, "EOF") || strings.Contains(c, "diff --git") || strings.Contains(c, "rm -f") ||
			!strings.Contains(c, ">>>>> Start Test Output") || !strings.Contains(c, ">>>>> End Test Output'\n") || !strings.Contains(c, ">>>>> Test Exit Code: $") {
			t.Errorf("%s: test command\n%s", rec.ID, c)
		}
	}
	want := map[string]int{"c": 10, "cpp": 1, "go": 10, "java": 11, "javascript": 9, "php": 8, "python": 43, "ruby": 12, "rust": 14, "typescript": 5}
	if !maps.Equal(count, want) {
		t.Errorf("languages %v, want %v", count, want)
	}
}

// The image of an official instance follows from its ID; nobody guesses another's.
func TestImageOfOlderRows(t *testing.T) {
	for repo, want := range map[string]string{"Django/django": "swebench/sweb.eval.x86_64.django_1776_django-1:latest", "acme/shop": ""} {
		r := newRow([]rows.Field{{Name: "repo", Value: rows.Value{Text: repo}}, {Name: "instance_id", Value: rows.Value{Text: "django__django-1"}}})
		if got := sweBench(r).Workspace.Image; got != want {
			t.Errorf("%s: %q, want %q", repo, got, want)
		}
	}
}

func TestExportNamesWhatIsLost(t *testing.T) {
	_, err := SWEBenchRow(&sdk.Record{ID: "a", Repo: "r", BaseCommit: "c", Source: "swebench", Patch: "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+2\n", Language: "python",
		Workspace: sdk.Workspace{Dir: "/testbed", Env: []string{"A=1"}}, Mutants: []sdk.Mutant{{ID: "m"}}})
	if err == nil || err.Error() != "a row of SWE-bench cannot hold Workspace, Mutants" {
		t.Errorf("error %v", err)
	}
}

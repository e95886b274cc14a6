package formats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

const gold = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"

// bench is a row of SWE-bench with changes; nil takes a column away.
func bench(changes map[string]any) map[string]any {
	row := map[string]any{"instance_id": "acme__shop-1", "repo": "acme/shop", "base_commit": "0123456789", "patch": gold, "test_patch": strings.ReplaceAll(gold, "shop", "tests/test_shop"),
		"problem_statement": "y is wrong", "FAIL_TO_PASS": []string{"t"}, "PASS_TO_PASS": `["u"]`}
	for k, v := range changes {
		if v == nil {
			delete(row, k)
		} else {
			row[k] = v
		}
	}
	return row
}

// file writes rows as JSON lines.
func file(t *testing.T, rows ...any) string {
	t.Helper()
	var b []byte
	for _, r := range rows {
		line, ok := r.(string)
		if !ok {
			j, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			line = string(j)
		}
		b = append(append(b, line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func meta(r *sdk.Record, key string) string {
	for _, p := range r.Meta {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

func TestUnknownColumnsAreKept(t *testing.T) {
	recs, bad := imported(t, Options{}, file(t, bench(map[string]any{"extra": "text", "n": 1.5, "list": []any{1, "a"}, "none": json.RawMessage("null")})))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	if meta(recs[0], "extra") != "text" || meta(recs[0], "n:json") != "1.5" || meta(recs[0], "list:json") != `[1,"a"]` || len(recs[0].Meta) != 3 {
		t.Errorf("%+v", recs[0].Meta)
	}
	row, err := SWEBenchRow(recs[0])
	if err != nil || !strings.Contains(string(row), `"n":1.5`) || !strings.Contains(string(row), `"list":[1,"a"]`) {
		t.Errorf("%s, error %v", row, err)
	}
}

// Rows that hold what no workspace could have are refused by the field's name, and the
// row after them is read.
func TestHostileRows(t *testing.T) {
	git := func(head, body string) string { return "diff --git a/x b/x\n" + head + body }
	const hunk = "@@ -1 +1 @@\n-1\n+2\n"
	for _, c := range []struct {
		name  string
		row   any
		field string
		text  string
	}{
		{"no JSON", "{", "", "the text ends"},
		{"not UTF-8", "{\"instance_id\":\"a\",\"repo\":\"caf\xe9\"}", "repo", "not UTF-8: byte 0xe9"},
		{"half a character", `{"instance_id":"a","problem_statement":"\udc00"}`, "problem_statement", "half a character"},
		{"no list", bench(map[string]any{"FAIL_TO_PASS": "['t']"}), "FAIL_TO_PASS", "want a list of texts, or its JSON"},
		{"list of numbers", bench(map[string]any{"PASS_TO_PASS": []int{1}}), "PASS_TO_PASS", "element 1: want a text, not a number"},
		{"text that is a number", bench(map[string]any{"problem_statement": 1}), "problem_statement", "want a text, not a number"},
		{"no ID", bench(map[string]any{"instance_id": nil}), "instance_id", "missing"},
		{"empty ID", bench(map[string]any{"instance_id": ""}), "instance_id", "empty"},
		{"ID with a line break", bench(map[string]any{"instance_id": "a\nb"}), "instance_id", "control character"},
		{"NUL in a test", bench(map[string]any{"FAIL_TO_PASS": []string{"a\x00"}}), "tests", "NUL"},
		{"patch of CRLF", bench(map[string]any{"patch": strings.ReplaceAll(gold, "\n", "\r\n")}), "patch", "CRLF"},
		{"outside the tree", bench(map[string]any{"patch": strings.ReplaceAll(gold, "shop.py", "../shop.py")}), "patch", "../shop.py: the path is not a clean path"},
		{"version control", bench(map[string]any{"test_patch": strings.ReplaceAll(gold, "shop.py", ".git/hooks/pre-commit")}), "test_patch", "may not touch .git"},
		{"submodule", bench(map[string]any{"patch": git("index 1111111..2222222 160000\n", "--- a/x\n+++ b/x\n"+hunk)}), "patch", "submodule"},
		{"binary without contents", bench(map[string]any{"patch": git("index 1111111..2222222 100644\n", "Binary files a/x and b/x differ\n")}), "patch", "binary file differs, but not how"},
		{"device", bench(map[string]any{"patch": "diff --git a/x b/x\nnew file mode 060000\nindex 0000000..2222222\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+1\n"}), "patch", "mode"},
		{"cut patch", bench(map[string]any{"patch": gold[:len(gold)-12]}), "patch", ""},
		{"prose", bench(map[string]any{"patch": "see above"}), "patch", "no file header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			recs, bad := imported(t, Options{}, file(t, bench(nil), c.row, bench(map[string]any{"instance_id": "after"})))
			if len(recs) != 2 || recs[1].ID != "after" || len(bad) != 1 {
				t.Fatalf("%d records, bad %v", len(recs), bad)
			}
			if b := bad[0]; b.Row != 2 || b.Unit != "line" || b.Field != c.field || !strings.Contains(b.Text, c.text) || !strings.HasSuffix(b.File, "rows.jsonl") {
				t.Errorf("%+v", b)
			}
		})
	}
}

// What git writes of renames, modes, links, binary files and files of CRLF is taken.
func TestUnusualPatches(t *testing.T) {
	for name, diff := range map[string]string{
		"rename":   "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n",
		"mode":     "diff --git a/a.sh b/a.sh\nold mode 100644\nnew mode 100755\n",
		"link":     "diff --git a/l b/l\nnew file mode 120000\nindex 0000000..1de5659\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n",
		"binary":   "diff --git a/b.bin b/b.bin\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..f76dd238ade08917e6712764a16a22005a50573d\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n",
		"CRLF":     "--- a/w.txt\n+++ b/w.txt\n@@ -1 +1 @@\n-a\r\n+b\r\n",
		"NUL":      "--- a/w.txt\n+++ b/w.txt\n@@ -1 +1 @@\n-a\x00\n+b\x00\n",
		"no break": strings.TrimSuffix(gold, "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			recs, bad := imported(t, Options{}, file(t, bench(map[string]any{"patch": diff})))
			if len(recs) != 1 || recs[0].Patch != diff {
				t.Errorf("%v", bad)
			}
		})
	}
}

// A line of 50 MB is read; one beyond the limit is passed over and its size is said.
func TestLongLines(t *testing.T) {
	path := file(t, bench(map[string]any{"problem_statement": strings.Repeat("x", 50<<20)}), bench(map[string]any{"instance_id": "b"}))
	recs, bad := imported(t, Options{}, path)
	if len(recs) != 2 || len(recs[0].Problem) != 50<<20 {
		t.Fatalf("%d records, bad %v", len(recs), bad)
	}
	recs, bad = imported(t, Options{Limit: 1 << 20}, path)
	if len(recs) != 1 || recs[0].ID != "b" || len(bad) != 1 || bad[0].Row != 1 || !strings.Contains(bad[0].Text, "more than the 1048576 that a row may have") {
		t.Errorf("%d records, bad %v", len(recs), bad)
	}
}

func TestSWEGym(t *testing.T) {
	row := bench(map[string]any{"instance_id": "getmoto__moto-5752", "repo": "getmoto/moto", "PASS_TO_PASS": []string{"u"}, "version": "4.0"})
	recs, bad := imported(t, Options{}, file(t, row))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	r := recs[0]
	if r.Source != "swegym" || r.Workspace.Image != "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5752:latest" || r.LogParser != "parse_log_pytest" ||
		!strings.Contains(r.TestCommand, "source /opt/miniconda3/bin/activate testbed\n: '>>>>> Start Test Output'\npytest -rA --color=no 'tests/test_shop.py'\nSWEBENCH_TEST_EXIT_CODE=$?\n: '>>>>> End Test Output'\n") || meta(r, "version") != "4.0" {
		t.Errorf("%+v", r)
	}
	// The tests of mypy are cases in files of data.
	cases := bench(map[string]any{"instance_id": "python__mypy-1", "repo": "python/mypy", "version": "1.4",
		"test_patch": "--- a/test-data/unit/check-a.test\n+++ b/test-data/unit/check-a.test\n@@ -1 +1,3 @@\n x\n+[case testOne]\n+[case testTwo-skip]\n"})
	recs, bad = imported(t, Options{}, file(t, cases))
	if len(bad) > 0 || recs[0].Source != "swegym" || recs[0].LogParser != "parse_log_pytest" || !strings.Contains(recs[0].TestCommand, "-k 'testOne or testTwo-skip'\n") {
		t.Errorf("%+v, %v", recs, bad)
	}
	// The same columns, another repository: SWE-bench's own, unless it is said.
	row["repo"] = "acme/shop"
	recs, _ = imported(t, Options{}, file(t, row))
	if recs[0].Source != "swebench" {
		t.Errorf("source %s", recs[0].Source)
	}
	recs, _ = imported(t, Options{Format: "swegym"}, file(t, row))
	if recs[0].Source != "swegym" {
		t.Errorf("source %s", recs[0].Source)
	}
}

// The patch of SWE-smith is the bug: the workspace has it, and the gold patch takes it out.
func TestSWESmith(t *testing.T) {
	recs, bad := imported(t, Options{}, file(t, map[string]any{"instance_id": "acme__shop.1fd52536.func_pm_1", "repo": "swesmith/acme__shop.1fd52536", "patch": gold,
		"FAIL_TO_PASS": []string{"tests/test_a.py::T::test"}, "PASS_TO_PASS": []string{"tests/test_b.py::test"}, "image_name": "jyangballin/swesmith.x86_64.acme_1776_shop.1fd52536", "problem_statement": nil}))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	r := recs[0]
	if r.Repo != "acme/shop" || r.BaseCommit != "1fd52536" || meta(r, "repo") != "swesmith/acme__shop.1fd52536" || !slices.Equal(r.TestFiles, []string{"tests/test_a.py", "tests/test_b.py"}) || r.Language != "python" {
		t.Errorf("%+v", r)
	}
	clean := []sdk.File{{Path: "shop.py", Data: []byte("x = 1\ny = 2\n")}}
	broken, err := patch.Tree(clean, r.Workspace.Patches...)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := patch.Tree(broken, r.Patch)
	if err != nil || string(broken[0].Data) != "x = 1\ny = 3\n" || string(fixed[0].Data) != string(clean[0].Data) {
		t.Errorf("broken %v, fixed %v, error %v", broken, fixed, err)
	}
}

func TestR2EGym(t *testing.T) {
	content := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	type m = map[string]any
	diff := func(path, before, after string) m {
		return m{"header": m{"file": m{"path": path}}, "old_file_content": before, "new_file_content": after, "hunks": []any{}}
	}
	row := m{"repo_name": "sympy", "docker_image": "namanjain12/sympy_final:abc", "commit_hash": "abcdef0123", "problem_statement": "y", "relevant_files": []string{"a.py"},
		"parsed_commit_content":    content(m{"old_commit_hash": "1234567890", "file_diffs": []m{diff("shop.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n"), diff("tests/test_shop.py", "", "assert 1\n"), diff("same.py", "a", "a")}}),
		"expected_output_json":     content(m{"T.turns": "PASSED", "stays": "PASSED", "T.fails": "FAILED"}),
		"execution_result_content": content(m{"old_commit_res_stdout": "= short test summary info =\nPASSED r2e_tests/test_1.py::stays\nFAILED r2e_tests/test_1.py::T::turns - assert 2 == 3\n"})}
	recs, bad := imported(t, Options{}, file(t, row))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	r := recs[0]
	if r.ID != "sympy__abcdef0123" || r.Repo != "sympy/sympy" || r.BaseCommit != "1234567890" || !slices.Equal(r.FailToPass, []string{"T.turns"}) || !slices.Equal(r.PassToPass, []string{"stays"}) ||
		!slices.Equal(r.TestFiles, []string{"tests/test_shop.py"}) || meta(r, "commit_hash") != "abcdef0123" || meta(r, "relevant_files:json") == "" || meta(r, "parsed_commit_content") != "" {
		t.Errorf("%+v", r)
	}
	fixed, err := patch.Tree([]sdk.File{{Path: "shop.py", Data: []byte("x = 1\ny = 2\n")}}, r.Patch, r.TestPatch)
	if err != nil || len(fixed) != 2 || string(fixed[0].Data) != "x = 1\ny = 3\n" {
		t.Errorf("%v, error %v", fixed, err)
	}
	// A file that is emptied is not removed, and one that is made may be empty.
	side := func(d m, minus, plus string) m {
		d["minus_file"], d["plus_file"] = m{"path": minus}, m{"path": plus}
		return d
	}
	row["parsed_commit_content"] = content(m{"old_commit_hash": "1234567890", "file_diffs": []m{
		side(diff("emptied.py", "x\n", ""), "a/emptied.py", "b/emptied.py"), side(diff("gone.py", "x\n", ""), "a/gone.py", "/dev/null"),
		side(diff("made.py", "", ""), "/dev/null", "b/made.py"), side(diff("mode.py", "", ""), "a/mode.py", "b/mode.py")}})
	recs, bad = imported(t, Options{}, file(t, row))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	fixed, err = patch.Tree([]sdk.File{{Path: "emptied.py", Data: []byte("x\n")}, {Path: "gone.py", Data: []byte("x\n")}, {Path: "mode.py"}}, recs[0].Patch)
	if err != nil || len(fixed) != 3 || fixed[0].Path != "emptied.py" || len(fixed[0].Data) != 0 || fixed[1].Path != "made.py" {
		t.Errorf("%v, error %v", fixed, err)
	}
	row["parsed_commit_content"] = "no JSON"
	row["commit_hash"] = "2"
	if _, bad := imported(t, Options{}, file(t, row)); len(bad) != 1 || bad[0].Field != "parsed_commit_content" {
		t.Errorf("%v", bad)
	}
}

// task writes a Harbor folder.
func task(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const harborToml = "schema_version = \"1.4\"\n[task]\nname = \"acme/hello\"\n[environment]\ndocker_image = \"acme/hello:1\"\nworkdir = \"/app\"\nnew_key = 1\n[environment.env]\nA = \"1\"\n[verifier.env]\nK = \"it's\"\n"

func harborFiles(changes map[string]string) map[string]string {
	files := map[string]string{"task.toml": harborToml, "instruction.md": "Say hello.\n", "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n", "tests/data/in.txt": "x", "tests/data/in.bin": "\x00\xff",
		"solution/solve.sh": "echo hello\n", "environment/Dockerfile": "FROM scratch\n", "tests.jsonl": "{}"}
	for k, v := range changes {
		if files[k] = v; v == "" {
			delete(files, k)
		}
	}
	return files
}

func TestHarbor(t *testing.T) {
	root := t.TempDir()
	task(t, filepath.Join(root, "one"), harborFiles(nil))
	task(t, filepath.Join(root, "legacy"), harborFiles(map[string]string{"task.toml": "version = \"1.0\"\n[environment]\nmemory = \"2G\"\nallow_internet = true\n"}))
	recs, bad := imported(t, Options{}, root)
	if len(recs) != 2 || len(bad) > 0 {
		t.Fatalf("%d records, bad %v", len(recs), bad)
	}
	if recs[0].ID != "legacy" || recs[0].Workspace.Image != "" {
		t.Errorf("%+v", recs[0])
	}
	r := recs[1]
	if r.ID != "acme/hello" || r.Problem != "Say hello.\n" || r.Workspace.Image != "acme/hello:1" || r.Workspace.Dir != "/app" || !slices.Equal(r.Workspace.Env, []string{"A=1"}) || r.Source != "harbor" ||
		meta(r, "task.toml") != harborToml || meta(r, "solution/solve.sh") != "echo hello\n" || meta(r, "environment/Dockerfile") != "FROM scratch\n" || !strings.Contains(r.TestCommand, `export K='it'\''s'`) {
		t.Errorf("%+v", r)
	}
	tests, err := patch.Tree(nil, r.TestPatch)
	want := []sdk.File{{Path: "tests/data/in.bin", Data: []byte("\x00\xff"), Exec: true}, {Path: "tests/data/in.txt", Data: []byte("x"), Exec: true}, {Path: "tests/test.sh", Data: []byte("echo 1 > /logs/verifier/reward.txt\n"), Exec: true}}
	if d := cmp.Diff(want, tests); err != nil || d != "" {
		t.Errorf("error %v, %s", err, d)
	}
	for _, c := range []struct {
		name, file, text, field, want string
	}{
		{"no TOML", "task.toml", "= 1", "task.toml", "line 1"},
		{"unknown version", "task.toml", "schema_version = \"9\"", "schema_version", `"9" is none of`},
		{"steps", "task.toml", "[[steps]]\nname=\"a\"", "steps", "several steps"},
		{"Windows", "task.toml", "[environment]\nos=\"windows\"", "environment.os", "Linux"},
		{"own container", "task.toml", "[verifier]\nenvironment_mode=\"separate\"", "verifier.environment_mode", "container of its own"},
		{"containers", "environment/docker-compose.yaml", "services: {}", "environment/docker-compose.yaml", "several containers"},
		{"no instruction", "instruction.md", "", "instruction.md", "missing"},
		{"no test", "tests/test.sh", "", "tests/test.sh", "missing"},
		{"instruction that is no text", "instruction.md", "\xff", "instruction.md", "not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := task(t, filepath.Join(t.TempDir(), "x"), harborFiles(map[string]string{c.file: c.text}))
			_, bad := imported(t, Options{}, dir)
			if len(bad) != 1 || bad[0].Field != c.field || !strings.Contains(bad[0].Text, c.want) || bad[0].File != dir {
				t.Errorf("%+v", bad)
			}
		})
	}
	dir := task(t, filepath.Join(t.TempDir(), "x"), harborFiles(nil))
	os.Symlink("/etc/passwd", filepath.Join(dir, "tests", "link"))
	if _, bad := imported(t, Options{}, dir); len(bad) != 1 || bad[0].Field != "tests/link" {
		t.Errorf("%+v", bad)
	}
}

// What is no data at all is named, and the other files are read.
func TestNoData(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.parquet": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "b.jsonl": "\n<!DOCTYPE html><html>", "c.json": "", "d.jsonl": "{\"x\": 1}",
		"e.parquet": "PAR1 and no more", "f.json": "{\n  \"a\": 1\n}", "g.jsonl": "PK\x03\x04", "h.json": "[" + string(must(json.Marshal(bench(nil)))) + ", {", "i.jsonl": string(must(json.Marshal(bench(map[string]any{"instance_id": "last"})))),
	} {
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
	}
	recs, bad := imported(t, Options{}, dir)
	if len(recs) != 2 || recs[1].ID != "last" {
		t.Errorf("%d records", len(recs))
	}
	want := []string{"Git LFS pointer", "HTML page", "empty", "the columns x are those of no format", "not readable as Parquet", "one JSON object over several lines", "zip archive", "the rest of the list cannot be read"}
	if len(bad) != len(want) {
		t.Fatalf("%v", bad)
	}
	for i, b := range bad {
		if !b.Lost || !strings.Contains(b.Text, want[i]) || strings.Contains(b.Text, dir) {
			t.Errorf("%v, want %q", b, want[i])
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestNothingThere(t *testing.T) {
	if _, err := Sources([]string{"none.jsonl"}); diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), `there is no "none.jsonl"`) {
		t.Errorf("error %v", err)
	}
	if _, err := Sources([]string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no data in the folder") {
		t.Errorf("error %v", err)
	}
	err := Import(t.Context(), nil, Options{Format: "nope"}, nil)
	if diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), `no format is called "nope"`) {
		t.Errorf("error %v", err)
	}
}

// Rows come in order, whichever worker is done first, and a stop is a stop.
func TestOrder(t *testing.T) {
	var rows []any
	for i := range 1000 {
		rows = append(rows, bench(map[string]any{"instance_id": fmt.Sprint(i), "problem_statement": strings.Repeat("x", i%7*1000)}))
	}
	path := file(t, rows...)
	recs, _ := imported(t, Options{}, path)
	for i, r := range recs {
		if r.ID != fmt.Sprint(i) {
			t.Fatalf("record %d is %s", i, r.ID)
		}
	}
	sources, _ := Sources([]string{path})
	stop := errors.New("stop")
	n := 0
	if err := Import(t.Context(), sources, Options{}, func(Item) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d rows, error %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Import(ctx, sources, Options{}, func(Item) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func FuzzRow(f *testing.F) {
	f.Add(string(must(json.Marshal(bench(nil)))))
	f.Add(`{"repo_name":"a","docker_image":"b","commit_hash":"c","parsed_commit_content":"{\"file_diffs\":[{\"old_file_content\":\"a\"}]}"}`)
	f.Add(`{"instance_id":"a","repo":"swesmith/a__b.c","patch":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n","image_name":"i","FAIL_TO_PASS":["x.py::t"]}`)
	f.Fuzz(func(t *testing.T, line string) {
		fields, err := rows.Object([]byte(line))
		if err != nil {
			return
		}
		for _, format := range table {
			r := newRow(fields)
			rec := format.record(r)
			if r.bad != nil || sound(rec, names{"instance_id", "patch", "test_patch", "patch"}, r.diffs) != nil {
				continue
			}
			row, err := SWEBenchRow(rec)
			if err != nil {
				continue
			}
			if again, err := rows.Object(row); err != nil {
				t.Fatalf("%v\n%s", err, row)
			} else if d := records.Differences(rec, sweBench(newRow(again))); len(d) > 0 {
				t.Fatalf("the row is another record: %v\n%s", d, row)
			}
		}
	})
}

func FuzzTestCommand(f *testing.F) {
	f.Add("git apply -v - <<'EOF'\nx\nEOF\n: '>>>>> Start Test Output'\ngit x\n: '>>>>> End Test Output'\n")
	f.Fuzz(func(t *testing.T, s string) { testCommand(s) })
}

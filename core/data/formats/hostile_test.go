package formats

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/sdk"
)

// A diff that no tree could take is a bad row that names the field; any other is kept to
// the byte, in the records file and through an export.
func TestHostileDiffs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, _, err := records.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []any
	var want []hostile.Diff
	for _, d := range hostile.Diffs() {
		switch {
		case len(d.Text) > 1<<20:
		case utf8.ValidString(d.Text):
			want = append(want, d)
			rows = append(rows, bench(map[string]any{"instance_id": d.Name, "patch": d.Text}), bench(map[string]any{"instance_id": d.Name + ", of tests", "test_patch": d.Text}))
		default:
			line := strings.Replace(string(must(json.Marshal(bench(nil)))), `x = 1`, "x = \xe9", 1)
			if _, bad := imported(t, Options{}, file(t, line)); len(bad) != 1 || !strings.Contains(bad[0].Text, "not UTF-8") {
				t.Errorf("%s: %v", d.Name, bad)
			}
		}
	}
	recs, bad := imported(t, Options{}, file(t, rows...))
	byID := map[string]*sdk.Record{}
	for _, r := range recs {
		byID[r.ID] = r
	}
	faults := map[string]*Bad{}
	for _, b := range bad {
		faults[b.ID] = b
	}
	for _, d := range want {
		for id, field := range map[string]string{d.Name: "patch", d.Name + ", of tests": "test_patch"} {
			if d.Never != "" {
				if b := faults[id]; b == nil || b.Field != field || !strings.Contains(b.Text, d.Never) {
					t.Errorf("%s: want a refusal of %s with %q, got %v", id, field, d.Never, b)
				}
				continue
			}
			r := byID[id]
			if r == nil {
				t.Errorf("%s: refused: %v", id, faults[id])
				continue
			}
			if r.Patch != d.Text && r.TestPatch != d.Text {
				t.Errorf("%s: the patch was changed", id)
			}
			if err := w.Append(r); err != nil {
				t.Fatal(err)
			}
			row, err := SWEBenchRow(r)
			if err != nil {
				t.Errorf("%s: export: %v", id, err)
				continue
			}
			back, bad := imported(t, Options{}, file(t, string(row)))
			if len(bad) > 0 || len(records.Differences(r, back[0])) > 0 {
				t.Errorf("%s: exported and imported again: %v", id, bad)
			}
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	again, bad := imported(t, Options{}, path)
	if len(again) != len(recs) || len(bad) > 0 {
		t.Errorf("%d of %d records come back, %v", len(again), len(recs), bad)
	}
	for _, r := range again {
		if d := records.Differences(byID[r.ID], r); len(d) > 0 {
			t.Errorf("%s differs in %v", r.ID, d)
		}
	}
}

// All diffs of a record are looked at, and all lists of files.
func TestHostileRecords(t *testing.T) {
	const never = "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-1\n+2\n"
	outside := []sdk.File{{Path: "../x"}}
	for field, r := range map[string]*sdk.Record{
		"Patch":      {Patch: never},
		"TestPatch":  {TestPatch: never},
		"Workspace":  {Workspace: sdk.Workspace{Patches: []string{never}}},
		"Candidates": {Candidates: []sdk.Candidate{{Patch: never}}},
		"Mutants":    {Mutants: []sdk.Mutant{{Files: outside}}},
		"TestFiles":  {TestFiles: []string{"../x"}},
		"files":      {Workspace: sdk.Workspace{Files: outside}},
		"Targets":    {Targets: []sdk.Target{{Path: "/etc/passwd"}}},
		"UnitTest":   {UnitTestFile: "../x"},
	} {
		r.ID, r.Source = "a", "git"
		path := filepath.Join(t.TempDir(), "r.jsonl")
		w, _, err := records.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		_, bad := imported(t, Options{}, path)
		if len(bad) != 1 || !strings.HasPrefix(bad[0].Field, field) || !strings.Contains(bad[0].Text, "clean path") {
			t.Errorf("%s: %v", field, bad)
		}
	}
}

// A row of SWE-bench is Unicode: what a record holds beyond that is no part of an export.
func TestExportOfWhatIsNoUnicode(t *testing.T) {
	recs, _ := imported(t, Options{}, file(t, bench(nil)))
	for field, change := range map[string]func(*sdk.Record){
		"Patch":   func(r *sdk.Record) { r.Patch = strings.Replace(r.Patch, "x = 1", "x = \xe9", 1) },
		"Problem": func(r *sdk.Record) { r.Problem = "caf\xe9" },
		"Meta":    func(r *sdk.Record) { r.Meta = append(r.Meta, sdk.Pair{Key: "k", Value: "\xff"}) },
	} {
		r := *recs[0]
		change(&r)
		if row, err := SWEBenchRow(&r); err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: error %v, row %q", field, err, row)
		}
	}
}

// Nothing of a folder of tasks leads out of it, blocks or fills the memory.
func TestHostileHarbor(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the host's"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"task.toml", "instruction.md", "environment/Dockerfile", "solution/solve.sh", "tests/test.sh", "tests"} {
		for kind, put := range map[string]func(p string) error{
			"a link to the outside": func(p string) error { return os.Symlink(secret, p) },
			"a link upwards": func(p string) error {
				return os.Symlink(strings.Repeat("../", 12)+strings.TrimPrefix(secret, "/"), p)
			},
			"a link to itself": func(p string) error { return os.Symlink(filepath.Base(p), p) },
			"a pipe":           func(p string) error { return syscall.Mkfifo(p, 0o600) },
			"a huge file": func(p string) error {
				f, err := os.Create(p)
				if err == nil {
					err = f.Truncate(1 << 40)
					f.Close()
				}
				return err
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				dir := task(t, filepath.Join(t.TempDir(), "x"), harborFiles(nil))
				p := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.RemoveAll(p); err != nil {
					t.Fatal(err)
				}
				if err := put(p); err != nil {
					t.Fatal(err)
				}
				// A task.toml that cannot be looked at makes the folder no task.
				sources := []Source{{Path: dir, Folder: true}}
				var bad []*Bad
				err := Import(t.Context(), sources, Options{}, func(i Item) error {
					if i.Bad != nil {
						bad = append(bad, i.Bad)
					}
					return nil
				})
				if err != nil || len(bad) != 1 || bad[0].Field != name {
					t.Errorf("%v, %v", bad, err)
				}
			})
		}
	}
	dir := task(t, filepath.Join(t.TempDir(), "x"), harborFiles(map[string]string{"a.md": "Say more.\n"}))
	if err := os.Remove(filepath.Join(dir, "instruction.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.md", filepath.Join(dir, "instruction.md")); err != nil {
		t.Fatal(err)
	}
	if recs, bad := imported(t, Options{}, dir); len(recs) != 1 || recs[0].Problem != "Say more.\n" {
		t.Errorf("a link within the task: %v", bad)
	}
}

// Folders are searched through links to themselves, as caches of downloads are made of
// them, but neither in circles nor into pipes.
func TestHostileFolders(t *testing.T) {
	real := t.TempDir()
	row := string(must(json.Marshal(bench(nil)))) + "\n"
	if err := os.WriteFile(filepath.Join(real, "blob"), []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "snapshot")
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"rows.jsonl": filepath.Join(real, "blob"), "loop.jsonl": "loop.jsonl", "up": "..", "gone.parquet": "nowhere", "folder.json": real} {
		if err := os.Symlink(target, filepath.Join(cache, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(cache, "pipe.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "latest")
	if err := os.Symlink(cache, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{cache, link} {
		recs, bad := imported(t, Options{}, dir)
		if len(recs) != 1 || len(bad) != 2 {
			t.Errorf("%s: %d records, %v", dir, len(recs), bad)
		}
	}
	sources, err := Sources([]string{link})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if strings.HasSuffix(s.Path, "rows.jsonl") && s.Size != int64(len(row)) {
			t.Errorf("%s has %d bytes, want %d", s.Path, s.Size, len(row))
		}
	}
}

// FuzzHarbor: a task's own file may be anything.
func FuzzHarbor(f *testing.F) {
	f.Add(harborToml, "Say hello.\n")
	f.Add("version = \"1.0\"\n[environment]\nworkdir = \"../x\"\n[verifier.env]\n\"a b\" = \"'\"\n", "\xff")
	dir := f.TempDir()
	for name, text := range harborFiles(nil) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, toml, instruction string) {
		for name, text := range map[string]string{"task.toml": toml, "instruction.md": instruction} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		seen := diffs{}
		rec, bad := harbor(dir, seen)
		if bad == nil {
			bad = sound(rec, names{"task.name", "patch", "tests", "patch"}, seen)
		}
		if bad != nil && bad.text == "" {
			t.Fatalf("%+v", bad)
		}
	})
}

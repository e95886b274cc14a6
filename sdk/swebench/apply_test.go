package swebench_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk/swebench"
)

// tree is a folder's content: of a file its text, of a link "-> target", with "+x"
// before what is executable.
type tree map[string]string

func (files tree) write(t *testing.T, dir string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(dir, path)
		mode := os.FileMode(0o644)
		if rest, ok := strings.CutPrefix(text, "+x"); ok {
			text, mode = rest, 0o755
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, ok := strings.CutPrefix(text, "-> "); ok && err == nil {
			err = os.Symlink(target, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t *testing.T, dir string) tree {
	t.Helper()
	files := tree{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			files[rel] = "-> " + target
			return err
		}
		b, err := os.ReadFile(path)
		text := string(b)
		if info, infoErr := d.Info(); infoErr == nil && info.Mode()&0o111 != 0 {
			text = "+x" + text
		}
		files[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tool runs a command where tests need git or patch; the environment's own
// configuration of git stays out of it.
func tool(dir string, args ...string) (string, int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode(), nil
	}
	return string(out), 0, err
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, code, err := tool(dir, append([]string{"git"}, args...)...)
	if err != nil || code != 0 {
		t.Fatalf("git %s: %v, status %d: %s", strings.Join(args, " "), err, code, out)
	}
	return out
}

func needTools(t *testing.T) {
	t.Helper()
	for _, name := range []string{"git", "patch"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("not tried: the order of patch commands needs %s: %v", name, err)
		}
	}
}

// upstream applies a patch in a repository with the harness's commands, one by one.
func upstream(t *testing.T, dir, patch string) (applied string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "patch.diff")
	if err := os.WriteFile(file, []byte(patch), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, c := range []string{"git apply --verbose", "git apply --verbose --3way", "git apply --verbose --reject", "patch --batch --forward --fuzz=5 -p1 -i"} {
		if i > 0 {
			if _, _, err := tool(dir, "/bin/sh", "-c", "git checkout -- . ; git clean -fd"); err != nil {
				t.Fatal(err)
			}
		}
		if _, code, err := tool(dir, append(strings.Fields(c), file)...); err != nil {
			t.Fatal(err)
		} else if code == 0 {
			return c
		}
	}
	if _, code, err := tool(dir, "git", "apply", "--check", "--reverse", file); err == nil && code == 0 {
		return "git apply --check --reverse"
	}
	return ""
}

const story = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"

// patches are applied to base. edit makes the patch by git from base or, if from is
// set, from that; text is a patch as it stands.
var patches = []struct {
	name string
	base tree
	from tree // the tree that the patch is of; nil: base
	to   tree
	text func(patch string) string
	how  string // the harness's way, as a part of the command; "" if none
	// without is what the script says where the repository's history is missing, if
	// the outcome is another then.
	without string
}{
	{name: "clean", base: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)}, how: "git apply --verbose"},
	{name: "moved lines", base: tree{"a": "zero\n" + story}, from: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)}, how: "git apply --verbose"},
	{name: "new, renamed, removed, modes, links", base: tree{"a": story, "b": "b\n", "c": "c\n", "d": "-> a"},
		to: tree{"e/a": strings.Replace(story, "five", "5", 1), "b": "+xb\n", "d": "-> b", "new": "n\n"}, how: "git apply --verbose"},
	{name: "binary", base: tree{"a": "\x00\x01\x02"}, to: tree{"a": "\x00\x01\x03" + strings.Repeat("x", 100)}, how: "git apply --verbose"},
	{name: "not UTF-8", base: tree{"a": "caf\xe9\n" + story}, to: tree{"a": "caf\xe8\n" + story}, how: "git apply --verbose"},
	{name: "CRLF", base: tree{"a": strings.ReplaceAll(story, "\n", "\r\n")}, to: tree{"a": strings.ReplaceAll(strings.Replace(story, "five", "5", 1), "\n", "\r\n")}, how: "git apply --verbose"},
	{name: "CRLF by attributes", base: tree{"a": strings.ReplaceAll(story, "\n", "\r\n"), ".gitattributes": "a text eol=crlf\n"},
		to: tree{"a": strings.ReplaceAll(strings.Replace(story, "five", "5", 1), "\n", "\r\n"), ".gitattributes": "a text eol=crlf\n"}, how: "git apply --verbose"},
	{name: "LF patch on a CRLF file", base: tree{"a": strings.ReplaceAll(story, "\n", "\r\n")}, from: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)}, how: "git apply --check --reverse", without: ">>>>> Patch Apply Failed"},
	{name: "three ways in conflict", base: tree{"a": strings.Replace(story, "five", "V", 1), "copy": story}, from: tree{"a": story, "copy": story},
		to: tree{"a": strings.Replace(story, "five", "5", 1), "copy": story}},
	{name: "three ways", base: tree{"a": strings.Replace(story, "four", "4", 1), "copy": story}, from: tree{"a": story, "copy": story},
		to: tree{"a": strings.Replace(story, "eight", "8", 1), "copy": story}, how: "git apply --verbose"},
	{name: "three ways, context changed, the old file is in the tree", base: tree{"a": strings.Replace(story, "four", "4", 1), "copy": story}, from: tree{"a": story, "copy": story},
		to: tree{"a": strings.Replace(story, "six", "6", 1), "copy": story}, how: "--3way"},
	{name: "three ways, the old file is in the history alone", base: tree{"a": strings.Replace(story, "four", "4", 1)}, from: tree{"a": story},
		to: tree{"a": strings.Replace(story, "six", "6", 1)}, how: "--3way", without: ">>>>> Applied Patch (patch --fuzz=5)"},
	{name: "three ways, applied before", base: tree{"a": strings.Replace(story, "five", "5", 1)}, from: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)}, how: "--3way", without: ">>>>> Applied Patch (it was there already)"},
	{name: "fuzz", base: tree{"a": strings.Replace(story, "four", "4", 1)}, from: tree{"a": story}, to: tree{"a": strings.Replace(story, "six", "6", 1)},
		text: func(p string) string { return withoutIndex(p) }, how: "patch --batch"},
	{name: "applied before", base: tree{"a": strings.Replace(story, "five", "5", 1)}, from: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)},
		text: func(p string) string { return withoutIndex(p) }, how: "git apply --check --reverse"},
	{name: "one file of two", base: tree{"a": story, "b": "other\n"}, from: tree{"a": story, "b": story}, to: tree{"a": strings.Replace(story, "five", "5", 1), "b": strings.Replace(story, "five", "5", 1)},
		text: func(p string) string { return withoutIndex(p) }},
	{name: "no newline at its end", base: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)}, text: func(p string) string { return strings.TrimSuffix(p, "\n") }, how: "patch --batch"},
	{name: "cut short", base: tree{"a": story}, to: tree{"a": strings.Replace(story, "five", "5", 1)}, text: func(p string) string { return p[:len(p)-12] }, how: "patch --batch"},
	{name: "plain headers", base: tree{"a": story}, text: func(string) string {
		return "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"
	}, to: tree{"a": story}, how: "git apply --verbose"},
	{name: "wrong counts", base: tree{"a": story}, text: func(string) string {
		return "--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n-one\n+1\n two\n"
	}, to: tree{"a": story}},
	{name: "ignored files", base: tree{"a": story, ".gitignore": "*.o\n", "x.o": "o\n"}, from: tree{"a": story, ".gitignore": "*.o\n"}, to: tree{"a": strings.Replace(story, "five", "5", 1), ".gitignore": "*.o\n"}, how: "git apply --verbose"},
	{name: "outside", base: tree{"a": story}, to: tree{"a": story}, text: func(string) string {
		return "--- /dev/null\n+++ b/../../out\n@@ -0,0 +1 @@\n+1\n"
	}},
	{name: "empty", base: tree{"a": story}, to: tree{"a": story}, text: func(string) string { return "" }, how: "patch --batch"},
	{name: "prose", base: tree{"a": story}, to: tree{"a": story}, text: func(string) string { return "I would change a.\n" }},
	{name: "END_OF_PATCH in its text", base: tree{"a": story}, to: tree{"a": "END_OF_PATCH\n$(x) `y` \\ '\n" + story}, how: "git apply --verbose"},
}

func withoutIndex(patch string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(patch, "\n"), func(l string) bool { return strings.HasPrefix(l, "index ") }), "")
}

// TestApplyScript compares the script, with and without the repository, with the
// harness's own commands: what is applied, and the tree that it leaves.
func TestApplyScript(t *testing.T) {
	needTools(t)
	for _, tt := range patches {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			repo := filepath.Join(dir, "parent", "repo")
			from := tt.from
			if from == nil {
				from = tt.base
			}
			commit := func(files tree) {
				entries, err := os.ReadDir(repo)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if e.Name() != ".git" {
						if err := os.RemoveAll(filepath.Join(repo, e.Name())); err != nil {
							t.Fatal(err)
						}
					}
				}
				files.write(t, repo)
				git(t, repo, "add", "-A")
				git(t, repo, "commit", "-q", "--allow-empty", "-m", "m")
			}
			if err := os.MkdirAll(repo, 0o755); err != nil {
				t.Fatal(err)
			}
			git(t, repo, "init", "-q")
			commit(from)
			commit(tt.to)
			patch := git(t, repo, "diff", "--binary", "-M", "HEAD~1", "HEAD")
			if tt.text != nil {
				patch = tt.text(patch)
			}
			commit(tt.base)
			script, err := swebench.ApplyScript(patch)
			if err != nil {
				t.Fatal(err)
			}
			bare, withGit := filepath.Join(dir, "parent", "bare"), filepath.Join(dir, "parent", "copy")
			for _, c := range [][]string{{"cp", "-a", repo, bare}, {"cp", "-a", repo, withGit}, {"rm", "-rf", filepath.Join(bare, ".git")}} {
				if out, code, err := tool(dir, c...); err != nil || code != 0 {
					t.Fatalf("%v: %v: %s", c, err, out)
				}
			}

			how := upstream(t, repo, patch)
			if tt.how == "" && how != "" || !strings.Contains(how, tt.how) {
				t.Errorf("the harness applies it by %q, want %q", how, tt.how)
			}
			want := readTree(t, repo)
			for place, dir := range map[string]string{"with its repository": withGit, "without": bare} {
				out, code, err := tool(dir, "/bin/sh", "-c", script)
				if err != nil {
					t.Fatal(err)
				}
				if dir == bare && tt.without != "" {
					if !strings.Contains(out, tt.without) {
						t.Errorf("%s: want %q: %s", place, tt.without, out)
					}
					continue
				}
				if (code == swebench.PatchApplied) != (how != "") || code != swebench.PatchApplied && code != swebench.PatchRefused ||
					strings.Contains(out, ">>>>> Applied Patch") != (how != "") || strings.Contains(out, ">>>>> Patch Apply Failed") != (how == "") {
					t.Errorf("%s: status %d, the harness: %q\n%s", place, code, how, out)
				}
				if got := readTree(t, dir); !maps.Equal(got, want) {
					t.Errorf("%s: the tree is %q, the harness's %q\n%s", place, got, want, out)
				}
			}
			if _, err := os.Lstat(filepath.Join(dir, "out")); err == nil {
				t.Error("the patch left the tree")
			}
		})
	}
}

func TestApplyScriptWithoutTools(t *testing.T) {
	script, err := swebench.ApplyScript("x\n")
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"mktemp", "head", "rm", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != swebench.PatchUntried {
		t.Errorf("status %d: %s", code, out)
	}
	if _, err := swebench.ApplyScript("a\x00b"); err == nil {
		t.Error("a NUL byte was taken")
	}
}

// TestEvalScriptWithoutRepository runs an eval script of the data's form in a
// repository and in the same tree without one: the tests, and so the grades, are the
// same if the tree has the test files as they were at the base commit.
func TestEvalScriptWithoutRepository(t *testing.T) {
	needTools(t)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("not tried: eval scripts need bash: %v", err)
	}
	for _, tt := range []struct {
		name, answer string
		resolved     bool
	}{{"right", "5\n", true}, {"wrong", "4\n", false}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			repo, bare := filepath.Join(dir, "repo"), filepath.Join(dir, "bare")
			files := tree{
				"answer":  "4\n",
				"tests/t": "+x#!/bin/sh\necho PASSED t.py::old\n",
			}
			files.write(t, repo)
			git(t, repo, "init", "-q")
			git(t, repo, "add", "-A")
			git(t, repo, "commit", "-q", "-m", "m")
			base := strings.TrimSpace(git(t, repo, "rev-parse", "HEAD"))
			tree{"tests/t": "+x#!/bin/sh\necho PASSED t.py::old\n[ $(cat answer) = 5 ] && echo PASSED t.py::new || { echo FAILED t.py::new - no; exit 1; }\n"}.write(t, repo)
			patch := git(t, repo, "diff")
			git(t, repo, "checkout", "-q", "--", ".")
			if err := os.WriteFile(filepath.Join(repo, "answer"), []byte(tt.answer), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, code, err := tool(dir, "cp", "-a", repo, bare); err != nil || code != 0 {
				t.Fatalf("%v: %s", err, out)
			}
			if err := os.RemoveAll(filepath.Join(bare, ".git")); err != nil {
				t.Fatal(err)
			}
			script := swebench.EvalScript("#!/bin/bash\nset -uxo pipefail\ngit status\ngit show\ngit -c core.fileMode=false diff " + base +
				"\ngit checkout " + base + " tests/t\ngit apply -v - <<'EOF_1'\n" + patch + "\nEOF_1\n: '>>>>> Start Test Output'\n./tests/t\n: '>>>>> End Test Output'\ngit checkout " + base + " tests/t\n")
			s := &swebench.Spec{ID: "o__r-1", LogParser: "parse_log_pytest", FailToPass: []string{"t.py::new"}, PassToPass: []string{"t.py::old"}}
			var reports []string
			for _, dir := range []string{repo, bare} {
				out, _, err := tool(dir, "bash", "-c", script)
				if err != nil {
					t.Fatal(err)
				}
				run, err := swebench.Read(s, out)
				if err != nil || run.Outcome != swebench.Graded || (run.Resolution == swebench.Full) != tt.resolved {
					t.Errorf("%s: %+v, error %v: %s", filepath.Base(dir), run, err, out)
				}
				reports = append(reports, string(swebench.NewReport(s, run).JSON()))
			}
			if reports[0] != reports[1] {
				t.Errorf("in the repository %s, without it %s", reports[0], reports[1])
			}
		})
	}
}

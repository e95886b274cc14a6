package patch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
)

// A diff and the one turned round lead there and back.
func TestReverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) []byte {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "c\r", "-- x", "+++ y", "é"}), 0, 12).Draw(t, "lines")
			end := rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
			if len(lines) == 0 {
				return nil
			}
			return []byte(strings.Join(lines, "\n") + end)
		})
		before := []sdk.File{}
		var changes []sdk.Change
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			p := fmt.Sprintf("d/f %d.py", i)
			if rapid.Bool().Draw(t, "there") {
				before = append(before, sdk.File{Path: p, Data: text.Draw(t, "before")})
			}
			c := sdk.Change{Path: p, Deleted: rapid.Bool().Draw(t, "deleted")}
			if !c.Deleted {
				c.Data = text.Draw(t, "after")
			}
			changes = append(changes, c)
		}
		read := func(p string) ([]byte, bool) {
			for _, f := range before {
				if f.Path == p {
					return f.Data, true
				}
			}
			return nil, false
		}
		diff := Diff(read, changes)
		after, err := Tree(before, diff)
		if err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		back, err := Reverse(diff)
		if err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		got, err := Tree(after, back)
		if err != nil {
			t.Fatalf("%v\n%s\nof\n%s", err, back, diff)
		}
		if len(got) != len(before) {
			t.Fatalf("%v, want %v", got, before)
		}
		for i := range got {
			if got[i].Path != before[i].Path || !bytes.Equal(got[i].Data, before[i].Data) {
				t.Fatalf("%v, want %v\n%s", got, before, back)
			}
		}
	})
}

// git itself goes the way back on renames, modes, links and binary files.
func TestReverseOfGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not here")
	}
	dir := t.TempDir()
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	write := func(name, data string) { os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644) }
	run("", "init", "-q")
	write("moved.py", strings.Repeat("line\n", 20)+"end\n")
	write("mode.sh", "#!/bin/sh\n")
	write("image", "\x00\x01\x02"+strings.Repeat("abc", 50))
	write("crlf.txt", "a\r\nb\r\n")
	write("gone.txt", "x")
	run("", "-c", "core.autocrlf=false", "add", "-A")
	run("", "commit", "-qm", "one")
	os.Rename(filepath.Join(dir, "moved.py"), filepath.Join(dir, "new name.py"))
	write("new name.py", strings.Repeat("line\n", 20)+"changed\n")
	os.Chmod(filepath.Join(dir, "mode.sh"), 0o755)
	write("image", "\x00\x01\x03"+strings.Repeat("abd", 50))
	write("crlf.txt", "a\r\nc\r\n")
	os.Remove(filepath.Join(dir, "gone.txt"))
	os.Symlink("mode.sh", filepath.Join(dir, "link"))
	run("", "-c", "core.autocrlf=false", "add", "-A")
	run("", "commit", "-qm", "two")
	diff := run("", "diff", "--binary", "-M", "HEAD~1", "HEAD")
	back, err := Reverse(diff)
	if err != nil {
		t.Fatal(err)
	}
	run(back, "apply", "--index", "-")
	if d := run("", "diff", "--cached", "HEAD~1"); d != "" {
		t.Errorf("not the way back:\n%s\nby\n%s", d, back)
	}
}

func TestInspect(t *testing.T) {
	const hunk = "@@ -1 +1 @@\n-1\n+2\n"
	for _, c := range []struct{ name, diff, want string }{
		{"plain", "--- a/x.py\n+++ b/x.py\n" + hunk, ""},
		{"outside", "--- a/../x\n+++ b/../x\n" + hunk, "apply patch: ../x: the path is not a clean path relative to the workspace"},
		{"absolute", "--- /etc/passwd\n+++ /etc/passwd\n" + hunk, "apply patch: /etc/passwd: the path is not a clean path"},
		{"version control", "diff --git a/.git/config b/.git/config\n--- a/.git/config\n+++ b/.git/config\n" + hunk, "a patch may not touch .git"},
		{"submodule", "diff --git a/lib b/lib\nindex 0a0a0a0..1b1b1b1 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit 0\n+Subproject commit 1\n", "lib: the diff changes a submodule"},
		{"binary without contents", "diff --git a/i.png b/i.png\nindex 0a0a0a0..1b1b1b1 100644\nBinary files a/i.png and b/i.png differ\n", "i.png: the diff says that a binary file differs, but not how"},
		{"CRLF", strings.ReplaceAll("--- a/x.py\n+++ b/x.py\n"+hunk, "\n", "\r\n"), "CRLF"},
		{"CRLF in the file", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\r\n+2\r\n", ""},
		{"prose", "see the other patch", "no file header"},
		{"blank", " \n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Inspect(c.diff)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzReverse(f *testing.F) {
	f.Add("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+2\n")
	f.Add("diff --git a/a b/b\nsimilarity index 90%\nrename from a\nrename to b\n")
	f.Fuzz(func(t *testing.T, diff string) {
		once, err := Reverse(diff)
		if err != nil || once == "" {
			return
		}
		if _, err := Inspect(once); err != nil {
			t.Fatalf("%v\n%q\nof %q", err, once, diff)
		}
	})
}

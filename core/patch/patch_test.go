package patch

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/sdk"
)

func TestApply(t *testing.T) {
	files := map[string]string{
		"a.txt":     "one\ntwo\nthree\nfour\nfive\n",
		"noeol":     "x\ny",
		"empty":     "",
		"dir/b c":   "spaced\n",
		"b/nested":  "in a directory called b\n",
		"link":      "a.txt",
		"dup.py":    "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
		"crlf.txt":  "a\r\nb\r\n",
		"umläut.md": "ü\n",
	}
	read := func(p string) ([]byte, error) {
		if s, ok := files[p]; ok {
			return []byte(s), nil
		}
		return nil, fs.ErrNotExist
	}
	text := func(p, s string) sdk.Change { return sdk.Change{Path: p, Data: []byte(s)} }
	gone := func(p string) sdk.Change { return sdk.Change{Path: p, Deleted: true} }
	for _, c := range []struct {
		name, diff string
		want       []sdk.Change
		err        string // part of the message; "" for none
	}{
		{"blank", " \n\n", nil, ""},
		{"prose", "I fixed the bug.\n", nil, "no file header"},
		{"git", "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
			[]sdk.Change{text("a.txt", "one\nTWO\nthree\nfour\nfive\n")}, ""},
		{"mode in the index line", "diff --git a/a.txt b/a.txt\nindex 1..2 100755\n--- a/a.txt\n+++ b/a.txt\n@@ -5 +5 @@\n-five\n+5\n",
			[]sdk.Change{{Path: "a.txt", Data: []byte("one\ntwo\nthree\nfour\n5\n"), Exec: true}}, ""},
		{"plain headers", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n", []sdk.Change{text("a.txt", "1\ntwo\nthree\nfour\nfive\n")}, ""},
		{"plain headers in b", "--- a/b/nested\n+++ b/b/nested\n@@ -1 +1 @@\n-in a directory called b\n+b\n", []sdk.Change{text("b/nested", "b\n")}, ""},
		{"plain new", "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hi\n", []sdk.Change{text("new.txt", "hi\n")}, ""},
		{"git in b", "diff --git a/b/nested b/b/nested\n--- a/b/nested\n+++ b/b/nested\n@@ -1 +1 @@\n-in a directory called b\n+b\n", []sdk.Change{text("b/nested", "b\n")}, ""},
		{"last newline missing", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1", []sdk.Change{text("a.txt", "1\ntwo\nthree\nfour\nfive\n")}, ""},
		{"insert without context", "--- a/a.txt\n+++ b/a.txt\n@@ -2,0 +3 @@\n+2.5\n", []sdk.Change{text("a.txt", "one\ntwo\n2.5\nthree\nfour\nfive\n")}, ""},
		{"insert at the top without context", "--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1 @@\n+0\n", []sdk.Change{text("a.txt", "0\none\ntwo\nthree\nfour\nfive\n")}, ""},
		{"no newline kept", "--- a/noeol\n+++ b/noeol\n@@ -1,2 +1,2 @@\n-x\n+X\n y\n\\ No newline at end of file\n", []sdk.Change{text("noeol", "X\ny")}, ""},
		{"newline added", "--- a/noeol\n+++ b/noeol\n@@ -2 +2 @@\n-y\n\\ No newline at end of file\n+y\n", []sdk.Change{text("noeol", "x\ny\n")}, ""},
		{"two hunks", "--- a/dup.py\n+++ b/dup.py\n@@ -1,2 +1 @@\n-1\n 2\n@@ -8,2 +7,3 @@\n 8\n 9\n+10\n", []sdk.Change{text("dup.py", "2\n3\n4\n5\n6\n7\n8\n9\n10\n")}, ""},
		{"twice in one diff", "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+I\n",
			[]sdk.Change{text("a.txt", "I\ntwo\nthree\nfour\nfive\n")}, ""},
		{"new executable", "diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n", []sdk.Change{{Path: "run", Data: []byte("#!/bin/sh\n"), Exec: true}}, ""},
		{"new and empty", "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n", []sdk.Change{{Path: "e"}}, ""},
		{"delete", "diff --git a/noeol b/noeol\ndeleted file mode 100644\n--- a/noeol\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n\\ No newline at end of file\n", []sdk.Change{gone("noeol")}, ""},
		{"delete empty", "diff --git a/empty b/empty\ndeleted file mode 100644\n", []sdk.Change{gone("empty")}, ""},
		{"rename", "diff --git a/a.txt b/z.txt\nsimilarity index 90%\nrename from a.txt\nrename to z.txt\n--- a/a.txt\n+++ b/z.txt\n@@ -1 +1 @@\n-one\n+1\n",
			[]sdk.Change{gone("a.txt"), text("z.txt", "1\ntwo\nthree\nfour\nfive\n")}, ""},
		{"copy", "diff --git a/noeol b/z.txt\nsimilarity index 100%\ncopy from noeol\ncopy to z.txt\n", []sdk.Change{text("z.txt", "x\ny")}, ""},
		{"chmod", "diff --git a/noeol b/noeol\nold mode 100644\nnew mode 100755\n", []sdk.Change{{Path: "noeol", Data: []byte("x\ny"), Exec: true}}, ""},
		{"symlink", "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a.txt\n\\ No newline at end of file\n", []sdk.Change{{Path: "l", Symlink: "a.txt"}}, ""},
		{"quoted names", "diff --git \"a/dir/b c\" \"b/dir/b c\"\n--- \"a/dir/b c\"\n+++ \"b/dir/b c\"\n@@ -1 +1 @@\n-spaced\n+s\n", []sdk.Change{text("dir/b c", "s\n")}, ""},
		{"octal names", "diff --git \"a/uml\\303\\244ut.md\" \"b/uml\\303\\244ut.md\"\n--- \"a/uml\\303\\244ut.md\"\n+++ \"b/uml\\303\\244ut.md\"\n@@ -1 +1 @@\n-ü\n+u\n", []sdk.Change{text("umläut.md", "u\n")}, ""},
		{"carriage returns", "--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", []sdk.Change{text("crlf.txt", "a\r\nc\r\n")}, ""},

		{"wrong line", "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-TWO\n+2\n", nil, `apply patch: a.txt: hunk 1 of 1: line 2 of the file is "two\n", the diff expects "TWO\n"`},
		{"moved", "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-one\n+1\n", nil, "line 2 of the file"},
		{"past the end", "--- a/a.txt\n+++ b/a.txt\n@@ -9 +9 @@\n-one\n+1\n", nil, "the file has 5"},
		{"overlap", "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n@@ -2 +2 @@\n-two\n+2\n", nil, "hunk 2 of 2: it starts at line 2"},
		{"count", "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n", nil, "apply patch"},
		{"missing file", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-one\n+1\n", nil, "apply patch: none: the file does not exist"},
		{"new but there", "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+hi\n", nil, "but it exists"},
		{"partial delete", "diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", nil, "not all of its lines"},
		{"rename onto", "diff --git a/a.txt b/noeol\nsimilarity index 100%\nrename from a.txt\nrename to noeol\n", nil, "but it exists"},
		{"leaves the tree", "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+hi\n", nil, "not a clean path"},
		{"absolute", "diff --git a//etc/x b//etc/x\nnew file mode 100644\n--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+hi\n", nil, "inconsistent"},
		{"version control", "--- /dev/null\n+++ b/sub/.git/config\n@@ -0,0 +1 @@\n+hi\n", nil, ".git"},
		{"submodule", "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 1\n", nil, "submodule"},
		{"binary without data", "diff --git a/a.txt b/a.txt\nindex 1..2 100644\nBinary files a/a.txt and b/a.txt differ\n", nil, "not how"},
		{"hunk without header", "@@ -1 +1 @@\n-one\n+1\n", nil, "without file header"},
		{"newline vanishes inside", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n\\ No newline at end of file\n", nil, "newline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Apply(read, c.diff)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				if diag.KindOf(err) != diag.KindData {
					t.Fatalf("kind %s", diag.KindOf(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestApplyPassesReadErrorsOn(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := Apply(func(string) ([]byte, error) { return nil, broken }, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n")
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

func TestTree(t *testing.T) {
	files := []sdk.File{{Path: "run.sh", Data: []byte("a\n"), Exec: true}, {Path: "keep", Data: []byte("k")}}
	got, err := Tree(files,
		"--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-a\n+b\n",
		"diff --git a/run.sh b/bin/run\nsimilarity index 100%\nrename from run.sh\nrename to bin/run\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.File{{Path: "bin/run", Data: []byte("b\n"), Exec: true}, {Path: "keep", Data: []byte("k")}}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if string(files[0].Data) != "a\n" {
		t.Fatal("Tree wrote into its input")
	}
	for name, bad := range map[string][]sdk.File{
		"twice":            {{Path: "a"}, {Path: "a"}},
		"outside":          {{Path: "../a"}},
		"absolute":         {{Path: "/a"}},
		"empty":            {{Path: ""}},
		"file as folder":   {{Path: "a"}, {Path: "a/b"}},
		"version control":  {{Path: "x/.git/HEAD"}},
		"zero byte":        {{Path: "a\x00b"}},
		"the root itself":  {{Path: "."}},
		"trailing slash":   {{Path: "a/"}},
		"dot in the midst": {{Path: "a/./b"}},
	} {
		if _, err := Tree(bad); diag.KindOf(err) != diag.KindData {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Tree(files, "--- /dev/null\n+++ b/keep/x\n@@ -0,0 +1 @@\n+x\n"); diag.KindOf(err) != diag.KindData {
		t.Errorf("a file under a file: got %v", err)
	}
}

func TestOver(t *testing.T) {
	below := map[string]sdk.Change{
		"a": {Path: "a", Data: []byte("one\n"), Exec: true}, "gone": {Path: "gone", Data: []byte("x\n")}, "link": {Path: "link", Symlink: "a"},
	}
	var asked []string
	broken := errors.New("a broken disk")
	read := func(p string) (sdk.Change, error) {
		asked = append(asked, p)
		if c, ok := below[p]; ok {
			return c, nil
		}
		if p == "broken" {
			return sdk.Change{}, diag.Wrap(diag.KindSandbox, "read", p, broken)
		}
		return sdk.Change{}, fs.ErrNotExist
	}
	files := []sdk.File{{Path: "b", Data: []byte("given\n")}}
	got, err := Over(read, files,
		"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-given\n+changed\n",
		"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-two\n+three\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
		"diff --git a/link b/link\nindex 1..2 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n")
	want := []sdk.Change{{Path: "a", Data: []byte("three\n"), Exec: true}, {Path: "b", Data: []byte("changed\n")}, {Path: "gone", Deleted: true}, {Path: "link", Symlink: "b"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v, want -, got +:\n%s", err, d)
	}
	if d := cmp.Diff([]string{"a", "gone", "link"}, asked); d != "" {
		t.Errorf("read was asked for %q", asked)
	}
	for name, c := range map[string]struct {
		files []sdk.File
		patch string
		kind  diag.Kind
	}{
		"does not fit":        {nil, "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-two\n+three\n", diag.KindData},
		"removed twice":       {nil, "--- a/none\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", diag.KindData},
		"a file under a file": {files, "--- /dev/null\n+++ b/b/x\n@@ -0,0 +1 @@\n+x\n", diag.KindData},
		"files that are none": {[]sdk.File{{Path: "../a"}}, "", diag.KindData},
		"what cannot be read": {nil, "--- a/broken\n+++ b/broken\n@@ -1 +1 @@\n-two\n+three\n", diag.KindSandbox},
		"of version control":  {nil, "--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+x\n", diag.KindData},
	} {
		if _, err := Over(read, c.files, c.patch); diag.KindOf(err) != c.kind {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDiffText(t *testing.T) {
	old := map[string]string{"m.py": "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "gone": "x", "bin": "\x00", "same": "s\n", "go.sh": "s\n"}
	got := Diff(func(p string) ([]byte, bool) { s, ok := old[p]; return []byte(s), ok }, []sdk.Change{
		{Path: "new file", Data: []byte("hi")},
		{Path: "m.py", Data: []byte("1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n")},
		{Path: "gone", Deleted: true},
		{Path: "never", Deleted: true},
		{Path: "bin", Data: []byte("\x00\x01")},
		{Path: "same", Data: []byte("s\n")},
		{Path: "go.sh", Data: []byte("s\n"), Exec: true},
		{Path: "l", Symlink: "m.py"},
	})
	want := `diff --git a/bin b/bin
index f76dd238ade08917e6712764a16a22005a50573d..bdc955b7b2e610ad5a72302b139a2e6cb325519a 100644
GIT binary patch
literal 2
Nc${Kj1Oxy8|Nj6300IC2

literal 1
Mc${JY1ONd4{{R610RR91

diff --git a/go.sh b/go.sh
old mode 100644
new mode 100755
diff --git a/gone b/gone
deleted file mode 100644
index c1b0730..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
\ No newline at end of file
diff --git a/l b/l
new file mode 120000
index 0000000..2fd8e2e
--- /dev/null
+++ b/l
@@ -0,0 +1 @@
+m.py
\ No newline at end of file
diff --git a/m.py b/m.py
index 08fe19c..f83e7a9 100644
--- a/m.py
+++ b/m.py
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
@@ -10,3 +10,4 @@
 10
 11
 12
+13
diff --git "a/new file" "b/new file"
new file mode 100644
index 0000000..32f95c0
--- /dev/null
+++ "b/new file"
@@ -0,0 +1 @@
+hi
\ No newline at end of file
`
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// genText draws texts of few distinct lines, so that differences interleave.
var genText = rapid.Custom(func(t *rapid.T) string {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "-- x", "++ y", "@@ -1 +1 @@", "\\ No", "diff --git a/x b/x", "é\r", "\xff", "\x00"}), 0, 40).Draw(t, "lines")
	s := strings.Join(lines, "\n")
	if rapid.Bool().Draw(t, "eol") {
		s += "\n"
	}
	return s
})

var genPath = rapid.StringMatching(`[a-c"\\ \t\n\x01é.b]{1,4}(/[a-c "]{1,3}){0,2}`).Filter(func(s string) bool { return checkPath(s) == nil })

func TestDiffApplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.MapOfN(genPath, genText, 0, 5).Draw(t, "before")
		paths := rapid.MapOfN(genPath, rapid.IntRange(0, 3), 0, 5).Draw(t, "paths")
		for p := range before {
			if rapid.Bool().Draw(t, "touch") {
				paths[p] = rapid.IntRange(0, 3).Draw(t, "how")
			}
		}
		var changes []sdk.Change
		for p, how := range paths {
			old, was := before[p]
			switch how {
			case 0:
				if was {
					changes = append(changes, sdk.Change{Path: p, Deleted: true})
				}
			case 1:
				if old != "target" {
					changes = append(changes, sdk.Change{Path: p, Symlink: "target"})
				}
			default:
				data := genText.Draw(t, "data")
				if !was || data != old {
					changes = append(changes, sdk.Change{Path: p, Data: []byte(data), Exec: how == 2})
				}
			}
		}
		text := Diff(func(p string) ([]byte, bool) { s, ok := before[p]; return []byte(s), ok }, changes)
		got, err := Apply(func(p string) ([]byte, error) {
			if s, ok := before[p]; ok {
				return []byte(s), nil
			}
			return nil, fs.ErrNotExist
		}, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want := map[string]sdk.Change{}
		for _, c := range changes {
			want[c.Path] = c
		}
		for _, g := range got {
			w, ok := want[g.Path]
			if !ok || w.Deleted != g.Deleted || w.Symlink != g.Symlink || w.Exec != g.Exec || !bytes.Equal(w.Data, g.Data) {
				t.Fatalf("%q: want %+v, got %+v\n%s", g.Path, w, g, text)
			}
			delete(want, g.Path)
		}
		if len(want) > 0 {
			t.Fatalf("lost %v\n%s", want, text)
		}
	})
}

// The marks must describe a common subsequence, and one of greatest length.
func TestEditsAreMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 30).Draw(t, "a")
		b := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 30).Draw(t, "b")
		gone, added := edits(a, b)
		var x, y []int
		for i, v := range a {
			if !gone[i] {
				x = append(x, v)
			}
		}
		for i, v := range b {
			if !added[i] {
				y = append(y, v)
			}
		}
		if d := cmp.Diff(x, y); d != "" {
			t.Fatal("what stays differs", d)
		}
		long := make([][]int, len(a)+1)
		for i := range long {
			long[i] = make([]int, len(b)+1)
		}
		for i := range a {
			for j := range b {
				if a[i] == b[j] {
					long[i+1][j+1] = long[i][j] + 1
				} else {
					long[i+1][j+1] = max(long[i][j+1], long[i+1][j])
				}
			}
		}
		if len(x) != long[len(a)][len(b)] {
			t.Fatalf("%d lines stay, %d could", len(x), long[len(a)][len(b)])
		}
	})
}

// Unlike files of many lines must not take quadratic time, and still be right.
func TestEditsOfUnlikeFiles(t *testing.T) {
	const n = 20000
	a, b := make([]int, n), make([]int, n)
	for i := range n {
		a[i], b[i] = i, -i-1
	}
	gone, added := edits(a, b)
	for i := range n {
		if !gone[i] || !added[i] {
			t.Fatalf("line %d counts as kept", i)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add("a\nb\n", "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n")
	f.Add("", "--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+hi\n")
	f.Add("x", "diff --git a/f b/h\nsimilarity index 100%\nrename from f\nrename to h\n")
	f.Add("x", "diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmYdfKnMT;00961\n\nliteral 0\nHcmV?d00001\n\n")
	for _, d := range hostile.Diffs() {
		if len(d.Text) < 1<<10 && len(d.Files()) == 1 {
			f.Add(string(d.Files()[0].Data), d.Text)
		}
	}
	f.Fuzz(func(t *testing.T, content, diff string) {
		read := func(p string) ([]byte, error) {
			if p == "f" {
				return []byte(content), nil
			}
			return nil, fs.ErrNotExist
		}
		got, err := Apply(read, diff)
		if err != nil {
			if diag.KindOf(err) != diag.KindData {
				t.Fatalf("kind of %v", err)
			}
			return
		}
		last := ""
		for _, c := range got {
			if checkPath(c.Path) != nil || c.Path <= last {
				t.Fatalf("path %q after %q", c.Path, last)
			}
			last = c.Path
		}
	})
}

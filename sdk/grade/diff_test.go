package grade

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
)

func tree(pairs ...string) []sdk.File {
	var out []sdk.File
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, sdk.File{Path: pairs[i], Data: []byte(pairs[i+1])})
	}
	return out
}

func show(files []sdk.File) string {
	var b strings.Builder
	for _, f := range files {
		b.WriteString(f.Path)
		if f.Exec {
			b.WriteString("*")
		}
		b.WriteString("=" + string(f.Data) + ";")
	}
	return b.String()
}

func TestApplyDiff(t *testing.T) {
	tests := []struct {
		name   string
		before []sdk.File
		diff   string
		want   string
		err    string
	}{
		{
			name: "replace", before: tree("a", "1\n2\n3\n"),
			diff: "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@ def f():\n 1\n-2\n+two\n 3\n", want: "a=1\ntwo\n3\n;",
		},
		{
			name: "no prefix, time stamps, no counts", before: tree("a", "1\n"),
			diff: "--- a\t2020-01-01\n+++ a\t2020-01-01\n@@ -1 +1 @@\n-1\n+2\n", want: "a=2\n;",
		},
		{
			name: "insert between", before: tree("a", "1\n2\n"),
			diff: "--- a/a\n+++ b/a\n@@ -1,0 +2 @@\n+x\n", want: "a=1\nx\n2\n;",
		},
		{
			name: "two hunks", before: tree("a", "1\n2\n3\n4\n"),
			diff: "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+x\n@@ -4 +4 @@\n-4\n+y\n", want: "a=x\n2\n3\ny\n;",
		},
		{
			name: "no break at the end", before: tree("a", "1"),
			diff: "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+1\n", want: "a=1\n;",
		},
		{
			name: "made", before: tree("a", "1"),
			diff: "diff --git a/d/b b/d/b\nnew file mode 100755\n--- /dev/null\n+++ b/d/b\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n", want: "a=1;d/b*=x\ny;",
		},
		{name: "made empty", diff: "diff --git a/e b/e\nnew file mode 100644\nindex 0000..e69d\n", want: "e=;"},
		{
			name: "removed", before: tree("a", "1\n", "b", "2"),
			diff: "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", want: "b=2;",
		},
		{
			name: "renamed", before: tree("a b", "1\n"),
			diff: "diff --git a/a b b/c d\nsimilarity index 100%\nrename from a b\nrename to c d\n", want: "c d=1\n;",
		},
		{name: "mode", before: tree("a", "1"), diff: "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n", want: "a*=1;"},
		{
			name: "quoted", before: tree("\u00e9", "1\n"),
			diff: "diff --git \"a/\\303\\251\" \"b/\\303\\251\"\n--- \"a/\\303\\251\"\n+++ \"b/\\303\\251\"\n@@ -1 +1 @@\n-1\n+2\n", want: "\u00e9=2\n;",
		},
		{
			name: "line breaks of Windows stay", before: tree("a", "1\r\n2\r\n"),
			diff: "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+3\r\n", want: "a=1\r\n3\r\n;",
		},
		{
			name: "a removed line that looks like a header", before: tree("a", "-- x\n++ y\n"),
			diff: "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n--- x\n+++ z\n ++ y\n", want: "a=++ z\n++ y\n;",
		},
		{
			name: "blank context without its blank", before: tree("a", "1\n\n2\n"),
			diff: "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n\n-2\n+3\n", want: "a=1\n\n3\n;",
		},
		{name: "elsewhere", before: tree("a", "0\n1\n"), diff: "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", err: "hunk 1 does not fit at line 1"},
		{name: "beyond the end", before: tree("a", "0\n"), diff: "--- a/a\n+++ b/a\n@@ -9 +9 @@\n-1\n+2\n", err: "starts at line 9 of 1"},
		{name: "missing file", diff: "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", err: "a: no such file"},
		{name: "made twice", before: tree("a", ""), diff: "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+2\n", err: "is there already"},
		{name: "removal leaves lines", before: tree("a", "1\n2\n"), diff: "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", err: "lines are left"},
		{name: "out of the tree", before: tree("a", "1"), diff: "--- a/../a\n+++ b/../a\n@@ -1 +1 @@\n-1\n+2\n", err: "not a clean path"},
		{name: "cut short", before: tree("a", "1\n"), diff: "--- a/a\n+++ b/a\n@@ -1,2 +1 @@\n-1\n", err: "cut short"},
		{name: "too long", before: tree("a", "1\n"), diff: "--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n 1\n", err: "more lines than its header says"},
		{name: "bad header", before: tree("a", "1\n"), diff: "--- a/a\n+++ b/a\n@@ -x +1 @@\n", err: "bad hunk header"},
		{name: "hunk without a file", diff: "@@ -1 +1 @@\n-1\n+2\n", err: "a hunk without a file"},
		{name: "binary", diff: "diff --git a/a b/a\nBinary files a/a and b/a differ\n", err: "binary"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := show(tt.before)
			got, err := ApplyDiff(tt.before, tt.diff)
			if show(tt.before) != before {
				t.Errorf("the tree given was changed to %s", show(tt.before))
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || show(got) != tt.want {
				t.Fatalf("got %q, error %v; want %q", show(got), err, tt.want)
			}
		})
	}
}

func TestParseDiffKeepsSections(t *testing.T) {
	d, err := ParseDiff("--- a/a\n+++ b/a\n@@ -1 +1 @@ def clamp(x):\n-1\n+2\n")
	if err != nil || len(d) != 1 || d[0].Hunks[0].Section != "def clamp(x):" || d[0].Path() != "a" {
		t.Errorf("%+v, error %v", d, err)
	}
}

// A diff that replaces whole files leads from any text to any other.
func TestReplaceEverything(t *testing.T) {
	lines := rapid.SliceOfN(rapid.StringMatching(`[a-c +@\\-]{0,4}`), 1, 6)
	rapid.Check(t, func(t *rapid.T) {
		old, new := lines.Draw(t, "old"), lines.Draw(t, "new")
		var b strings.Builder
		b.WriteString("--- a/f\n+++ b/f\n@@ -1," + itoa(len(old)) + " +1," + itoa(len(new)) + " @@\n")
		for _, l := range old {
			b.WriteString("-" + l + "\n")
		}
		for _, l := range new {
			b.WriteString("+" + l + "\n")
		}
		got, err := ApplyDiff(tree("f", strings.Join(old, "\n")+"\n"), b.String())
		if want := strings.Join(new, "\n") + "\n"; err != nil || string(got[0].Data) != want {
			t.Fatalf("got %q, error %v; want %q", show(got), err, want)
		}
	})
}

func itoa(n int) string { return string(rune('0' + n)) }

func FuzzParseDiff(f *testing.F) {
	f.Add("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@ x\n 1\n-2\n+two\n 3\n\\ No newline at end of file\n")
	f.Add("diff --git \"a/\\303\" b/x\nrename from x\nrename to y\nnew mode 100755\n")
	f.Fuzz(func(t *testing.T, text string) {
		files, err := ParseDiff(text)
		if err != nil {
			return
		}
		for i := range files {
			if files[i].Path() == "" || strings.HasPrefix(files[i].Path(), "/") {
				t.Fatalf("path %q", files[i].Path())
			}
			files[i].Apply([]byte(text))
		}
	})
}

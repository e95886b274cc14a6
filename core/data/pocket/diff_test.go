package pocket

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

func TestReplacedApplies(t *testing.T) {
	line := rapid.SampledFrom([]string{"", "def f(x):", "    return x", "    x = 1", "-", "+ 2", "@@ -1 +1 @@"})
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(line, 1, 40).Draw(t, "before")
		after := append([]string(nil), before...)
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			after[rapid.IntRange(0, len(after)-1).Draw(t, "at")] = line.Draw(t, "line")
		}
		files, err := patch.Tree([]sdk.File{{Path: "a.py", Data: text(before)}}, replaced("a.py", before, after))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(files[0].Data); got != string(text(after)) {
			t.Fatalf("got %q", got)
		}
	})
}

func TestReplacedText(t *testing.T) {
	before := strings.Split("def f(x):\n    a\n    b\n    c\n    d\n    e\n\ndef g(x):\n    h\n    i\n    j", "\n")
	after := strings.Split("def f(x):\n    a\n    b\n    c\n    D\n    e\n\ndef g(x):\n    h\n    i\n    J", "\n")
	want := `diff --git a/m.py b/m.py
--- a/m.py
+++ b/m.py
@@ -2,10 +2,10 @@ def f(x):
     a
     b
     c
-    d
+    D
     e
 
 def g(x):
     h
     i
-    j
+    J
`
	if got := replaced("m.py", before, after); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := replaced("m.py", before, before); got != "" {
		t.Errorf("no change gives\n%s", got)
	}
	want = "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
	if got := created("n.py", "a\nb\n"); got != want {
		t.Errorf("got\n%s", got)
	}
}

// Package hostile is one corpus of what data sets, archives, histories and agents may
// hold against those who read them. The tests of every place that takes a diff or a tree
// go through it, so that what one place has learnt to refuse, the others are asked too.
//
// It is for tests, and nothing in it runs anything but git, where a history is asked for.
package hostile

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/valence-rl/valence/sdk"
)

// Diff is a unified diff, and what becomes of it.
type Diff struct {
	Name   string
	Before []sdk.Change // the tree: files and links
	Text   string
	// After is the changes that it makes, sorted by path, one a path.
	After []sdk.Change
	// Never is a part of the refusal of a diff that no tree could take, and Here of one
	// that this tree does not take. "" and "": it is applied.
	Never, Here string
	// NotGit says that git's own `git apply` does otherwise: it takes what is refused
	// here, or refuses what is taken.
	NotGit bool
}

// Links says whether the diff has to do with symbolic links, which some trees cannot hold.
func (d *Diff) Links() bool {
	for _, list := range [][]sdk.Change{d.Before, d.After} {
		for _, c := range list {
			if c.Symlink != "" {
				return true
			}
		}
	}
	return false
}

// Files is Before without its links.
func (d *Diff) Files() []sdk.File {
	var out []sdk.File
	for _, c := range d.Before {
		if c.Symlink == "" {
			out = append(out, sdk.File{Path: c.Path, Data: c.Data, Exec: c.Exec})
		}
	}
	return out
}

func file(path, text string) sdk.Change { return sdk.Change{Path: path, Data: []byte(text)} }
func tool(path, text string) sdk.Change {
	return sdk.Change{Path: path, Data: []byte(text), Exec: true}
}
func link(path, to string) sdk.Change { return sdk.Change{Path: path, Symlink: to} }
func gone(path string) sdk.Change     { return sdk.Change{Path: path, Deleted: true} }

// change is the text that makes 2 of 1 in a file, with the names as they are given.
func change(old, new string) string {
	return fmt.Sprintf("--- %s\n+++ %s\n@@ -1 +1 @@\n-1\n+2\n", old, new)
}

// git is change with git's header in front of it.
func git(old, new string, headers ...string) string {
	return "diff --git " + old + " " + new + "\n" + strings.Join(headers, "") + change(old, new)
}

// create is the text that makes a file.
func create(name, mode, text string) string {
	n := strings.Count(text, "\n")
	body, end := "+"+strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n+")+"\n", ""
	if !strings.HasSuffix(text, "\n") {
		n, end = n+1, "\\ No newline at end of file\n"
	}
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode %[2]s\nindex 0000000..1111111\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,%[3]d @@\n%[4]s%[5]s", name, mode, n, body, end)
}

// Equal says whether two lists of changes are the same.
func Equal(a, b []sdk.Change) bool { return slices.EqualFunc(a, b, alike) }

func alike(a, b sdk.Change) bool {
	return a.Path == b.Path && a.Deleted == b.Deleted && a.Symlink == b.Symlink && a.Exec == b.Exec && string(a.Data) == string(b.Data)
}

// Brief shows changes in few words.
func Brief(changes []sdk.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%q deleted=%t link=%q exec=%t %d bytes %.40q; ", c.Path, c.Deleted, c.Symlink, c.Exec, len(c.Data), c.Data)
	}
	return b.String()
}

// Diffs gives the corpus, which nobody changes.
var Diffs = sync.OnceValue(diffs)

func diffs() []Diff {
	one, two := []sdk.Change{file("x", "1\n")}, []sdk.Change{file("x", "2\n")}
	long := strings.Repeat("line\n", 60_000)
	wide := strings.Repeat("w", 4<<20)
	return []Diff{
		// Where a path leads.
		{Name: "above the tree", Before: one, Text: git("a/../x", "b/../x"), Never: "clean path"},
		{Name: "above the tree, further down", Before: one, Text: git("a/d/../../x", "b/d/../../x"), Never: "clean path"},
		{Name: "above the tree, created", Text: create("../x", "100644", "1\n"), Never: "clean path"},
		{Name: "above the tree, in octal", Before: one, Text: git(`"a/\056\056/x"`, `"b/\056\056/x"`), Never: "clean path"},
		{Name: "above the tree by a rename", Before: one, Text: "diff --git a/x b/../x\nsimilarity index 100%\nrename from x\nrename to ../x\n", Never: "clean path"},
		{Name: "above the tree by a copy", Before: one, Text: "diff --git a/x b/../y\nsimilarity index 100%\ncopy from x\ncopy to ../y\n", Never: "clean path"},
		{Name: "absolute", Before: one, Text: change("/etc/passwd", "/etc/passwd"), Never: "clean path"},
		{Name: "absolute behind the prefix", Before: one, Text: git("a//etc/passwd", "b//etc/passwd"), Here: "etc/passwd"},
		{Name: "absolute, in quotes", Before: one, Text: change(`"/etc/x\171"`, `"/etc/x\171"`), Never: "clean path"},
		{Name: "a dot on the way", Before: one, Text: git("a/./x", "b/./x"), Never: "clean path"},
		{Name: "slashes on the way", Before: []sdk.Change{file("d/x", "1\n")}, Text: git("a/d//x", "b/d//x"), After: []sdk.Change{file("d/x", "2\n")}},
		{Name: "NUL in a name", Before: one, Text: git(`"a/x\000y"`, `"b/x\000y"`), Never: "clean path", NotGit: true},
		{Name: "backslashes are no folders", Before: []sdk.Change{file(`..\x`, "1\n")}, Text: git(`"a/..\\x"`, `"b/..\\x"`), After: []sdk.Change{file(`..\x`, "2\n")}},
		{Name: "a file below a file", Before: one, Text: create("x/y", "100644", "1\n"), Here: "x"},
		{Name: "a file in the place of a folder", Before: []sdk.Change{file("d/x", "1\n")}, Text: create("d", "100644", "1\n"), Here: "d"},

		// Version control.
		{Name: "version control", Before: []sdk.Change{file(".git/config", "1\n")}, Text: git("a/.git/config", "b/.git/config"), Never: ".git"},
		{Name: "a hook", Text: create(".git/hooks/pre-commit", "100755", "rm\n"), Never: ".git"},
		{Name: "version control further down", Text: create("lib/.git/hooks/x", "100755", "rm\n"), Never: ".git"},
		{Name: "version control as a file", Text: create("lib/.git", "100644", "gitdir: ../../x\n"), Never: ".git"},
		{Name: "version control by a rename", Before: one, Text: "diff --git a/x b/.git/config\nsimilarity index 100%\nrename from x\nrename to .git/config\n", Never: ".git"},
		{Name: "the list of submodules", Text: create(".gitmodules", "100644", "[submodule \"x\"]\n"), After: []sdk.Change{file(".gitmodules", "[submodule \"x\"]\n")}},
		{Name: "a submodule made", Text: "diff --git a/lib b/lib\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n+++ b/lib\n@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n", Never: "submodule", NotGit: true},
		{Name: "a submodule moved on", Text: "diff --git a/lib b/lib\nindex 1111111..2222222 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit 1111111111111111111111111111111111111111\n+Subproject commit 2222222222222222222222222222222222222222\n", Never: "submodule"},
		{Name: "a submodule removed", Text: "diff --git a/lib b/lib\ndeleted file mode 160000\nindex 1111111..0000000\n--- a/lib\n+++ /dev/null\n@@ -1 +0,0 @@\n-Subproject commit 1111111111111111111111111111111111111111\n", Never: "submodule"},

		// Names.
		{Name: "without prefixes, plain", Before: []sdk.Change{file("d/x", "1\n")}, Text: change("d/x", "d/x"), After: []sdk.Change{file("d/x", "2\n")}, NotGit: true},
		{Name: "without prefixes, of git", Before: []sdk.Change{file("d/x", "1\n"), file("x", "1\n")}, Text: git("d/x", "d/x"), Never: "prefix", NotGit: true},
		{Name: "without prefixes, of git, in the root", Before: one, Text: git("x", "x"), Never: "prefix"},
		{Name: "without prefixes, of git, created", Text: strings.ReplaceAll(strings.ReplaceAll(create("d/x", "100644", "1\n"), "a/d", "d"), "b/d", "d"), Never: "prefix", NotGit: true},
		{Name: "other letters as prefixes", Before: one, Text: git("i/x", "w/x"), After: two},
		{Name: "plain, with times", Before: one, Text: "--- a/x\t2024-01-01 00:00:00.000000000 +0000\n+++ b/x\t2024-01-02 00:00:00.000000000 +0000\n@@ -1 +1 @@\n-1\n+2\n", After: two},
		{Name: "blanks in a name", Before: []sdk.Change{file("d d/x y", "1\n")}, Text: "diff --git a/d d/x y b/d d/x y\n--- a/d d/x y\t\n+++ b/d d/x y\t\n@@ -1 +1 @@\n-1\n+2\n", After: []sdk.Change{file("d d/x y", "2\n")}},
		{Name: "a name in octal", Before: []sdk.Change{file("café", "1\n")}, Text: git(`"a/caf\303\251"`, `"b/caf\303\251"`), After: []sdk.Change{file("café", "2\n")}},
		{Name: "a name in octal, plain", Before: []sdk.Change{file("café", "1\n")}, Text: change(`"a/caf\303\251"`, `"b/caf\303\251"`), After: []sdk.Change{file("café", "2\n")}},
		{Name: "a name with a line break", Before: []sdk.Change{file("x\ny\"", "1\n")}, Text: git(`"a/x\ny\""`, `"b/x\ny\""`), After: []sdk.Change{file("x\ny\"", "2\n")}},
		{Name: "a name that is no UTF-8", Before: []sdk.Change{file("caf\xe9", "1\n")}, Text: git(`"a/caf\351"`, `"b/caf\351"`), Never: "clean path", NotGit: true},
		{Name: "a name that is no UTF-8, as it is", Before: []sdk.Change{file("caf\xe9", "1\n")}, Text: git("a/caf\xe9", "b/caf\xe9"), Never: "clean path", NotGit: true},
		{Name: "names that differ in case", Before: []sdk.Change{file("X", "1\n"), file("x", "1\n")}, Text: git("a/x", "b/x"), After: two},
		{Name: "two names and no rename", Before: []sdk.Change{file("x", "1\n"), file("y", "1\n")}, Text: change("a/x", "b/y"), After: []sdk.Change{file("y", "2\n")}},
		{Name: "two names and no rename, of git", Before: []sdk.Change{file("x", "1\n"), file("y", "1\n")}, Text: git("a/x", "b/y"), Never: "header", NotGit: true},
		{Name: "no name at all", Text: "diff --git\n@@ -1 +1 @@\n-1\n+2\n", Never: "header"},

		// Line ends and contents.
		{Name: "a file of CRLF", Before: []sdk.Change{file("x", "1\r\n")}, Text: "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\r\n+2\r\n", After: []sdk.Change{file("x", "2\r\n")}},
		{Name: "a patch of CRLF", Before: one, Text: strings.ReplaceAll(git("a/x", "b/x", "index 1111111..2222222 100644\n"), "\n", "\r\n"), Never: "CRLF"},
		{Name: "a patch of CRLF, plain", Before: one, Text: strings.ReplaceAll(change("a/x", "b/x"), "\n", "\r\n"), Never: "CRLF"},
		{Name: "a patch of LF for a file of CRLF", Before: []sdk.Change{file("x", "1\r\n")}, Text: git("a/x", "b/x"), Here: "expects"},
		{Name: "contents that are no UTF-8", Before: []sdk.Change{file("x", "caf\xe9\n")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-caf\xe9\n+caf\xe8\n", After: []sdk.Change{file("x", "caf\xe8\n")}},
		{Name: "NUL in contents", Before: []sdk.Change{file("x", "a\x00\n")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\x00\n+b\x00\n", After: []sdk.Change{file("x", "b\x00\n")}},
		{Name: "no line break at the end", Before: []sdk.Change{file("x", "1")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n", After: []sdk.Change{file("x", "2")}},
		{Name: "a line break added at the end", Before: []sdk.Change{file("x", "1")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+1\n", After: []sdk.Change{file("x", "1\n")}},
		{Name: "the diff's own last break is missing", Before: one, Text: strings.TrimSuffix(git("a/x", "b/x"), "\n"), After: two, NotGit: true},
		{Name: "lines that look like headers", Before: []sdk.Change{file("x", "-- a/y\n")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a/y\n+++ b/y\n", After: []sdk.Change{file("x", "++ b/y\n")}},
		{Name: "form feeds and lone CR are no line ends", Before: []sdk.Change{file("x", "1\f\r2\v\u20283\n")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\f\r2\v\u20283\n+4\n", After: []sdk.Change{file("x", "4\n")}},
		{Name: "a mail around it", Before: one, Text: "From 1 Mon Sep 17 00:00:00 2001\nSubject: mend\n\n---\n x | 2 +-\n\n" + git("a/x", "b/x") + "-- \n2.39.5\n\n", After: two},

		// Kinds and modes.
		{Name: "an empty file made", Text: "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n", After: []sdk.Change{{Path: "x"}}},
		{Name: "an empty file removed", Before: []sdk.Change{{Path: "x"}}, Text: "diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n", After: []sdk.Change{gone("x")}},
		{Name: "a file emptied", Before: one, Text: "diff --git a/x b/x\nindex 1111111..e69de29 100644\n--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-1\n", After: []sdk.Change{{Path: "x"}}},
		{Name: "removed", Before: one, Text: "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", After: []sdk.Change{gone("x")}},
		{Name: "removed, but lines are left", Before: []sdk.Change{file("x", "1\n2\n")}, Text: "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", Here: "x"},
		{Name: "made executable", Before: one, Text: "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", After: []sdk.Change{tool("x", "1\n")}},
		{Name: "no longer executable", Before: []sdk.Change{tool("x", "1\n")}, Text: "diff --git a/x b/x\nold mode 100755\nnew mode 100644\n" + change("a/x", "b/x"), After: two},
		{Name: "still executable", Before: []sdk.Change{tool("x", "1\n")}, Text: git("a/x", "b/x"), After: []sdk.Change{tool("x", "2\n")}},
		{Name: "set-user-ID", Text: create("x", "104755", "1\n"), Never: "mode", NotGit: true},
		{Name: "a device", Text: create("x", "060000", "1\n"), Never: "mode", NotGit: true},
		{Name: "a folder", Text: create("x", "040000", "1\n"), Never: "mode", NotGit: true},
		{Name: "renamed", Before: one, Text: "diff --git a/x b/d/y\nsimilarity index 50%\nrename from x\nrename to d/y\n" + change("a/x", "b/d/y"), After: []sdk.Change{file("d/y", "2\n"), gone("x")}},
		{Name: "renamed over another", Before: []sdk.Change{file("x", "1\n"), file("y", "1\n")}, Text: "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", Here: "exists"},
		{Name: "renamed in a circle", Before: []sdk.Change{file("x", "1\n"), file("y", "2\n")},
			Text: "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\ndiff --git a/y b/x\nsimilarity index 100%\nrename from y\nrename to x\n", After: []sdk.Change{file("x", "2\n"), file("y", "1\n")}},
		{Name: "copied", Before: one, Text: "diff --git a/x b/y\nsimilarity index 50%\ncopy from x\ncopy to y\n" + change("a/x", "b/y"), After: []sdk.Change{file("y", "2\n")}},
		{Name: "copied and changed", Before: one, Text: "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n" + git("a/x", "b/x"), After: []sdk.Change{file("x", "2\n"), file("y", "1\n")}},
		{Name: "changed and then copied, from what was", Before: one, Text: git("a/x", "b/x") + "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", After: []sdk.Change{file("x", "2\n"), file("y", "1\n")}},
		{Name: "made anew before the old is renamed", Before: one, Text: create("x", "100644", "new\n") + "diff --git a/x b/y\nsimilarity index 50%\nrename from x\nrename to y\n" + change("a/x", "b/y"), After: []sdk.Change{file("x", "new\n"), file("y", "2\n")}},
		{Name: "renamed twice", Before: one, Text: "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\ndiff --git a/y b/z\nsimilarity index 100%\nrename from y\nrename to z\n", After: []sdk.Change{gone("x"), gone("y"), file("z", "1\n")}, NotGit: true},
		{Name: "changed twice", Before: one, Text: git("a/x", "b/x") + "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-2\n+3\n", After: []sdk.Change{file("x", "3\n")}},
		{Name: "changed twice from the same", Before: one, Text: git("a/x", "b/x") + git("a/x", "b/x"), Here: "expects"},
		{Name: "made twice", Text: create("x", "100644", "1\n") + create("x", "100644", "1\n"), Here: "exists", NotGit: true},
		{Name: "made and removed", Before: []sdk.Change{file("y", "1\n")}, Text: create("x", "100644", "1\n") + "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", After: []sdk.Change{gone("x")}, NotGit: true},
		{Name: "made where one is", Before: one, Text: create("x", "100644", "2\n"), Here: "exists"},
		{Name: "changed where none is", Text: git("a/x", "b/x"), Here: "not exist"},

		// Links.
		{Name: "a link made", Text: create("l", "120000", "x"), After: []sdk.Change{link("l", "x")}},
		{Name: "a link to the outside made", Text: create("l", "120000", "../../../etc/passwd"), After: []sdk.Change{link("l", "../../../etc/passwd")}},
		{Name: "a link to itself made", Text: create("l", "120000", "l"), After: []sdk.Change{link("l", "l")}},
		{Name: "a link turned", Before: []sdk.Change{link("l", "x")}, Text: "diff --git a/l b/l\nindex 1111111..2222222 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+/etc\n\\ No newline at end of file\n", After: []sdk.Change{link("l", "/etc")}},
		{Name: "a link changed as if it were a file", Before: []sdk.Change{file("x", "1\n"), link("l", "x")}, Text: git("a/l", "b/l", "index 1111111..2222222 100644\n"), Here: "link"},
		{Name: "a link changed as if it were a file, plain", Before: []sdk.Change{file("x", "1\n"), link("l", "x")}, Text: change("a/l", "b/l"), Here: "link"},
		{Name: "a file changed as if it were a link", Before: []sdk.Change{file("l", "x")}, Text: "diff --git a/l b/l\nindex 1111111..2222222 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+/etc\n\\ No newline at end of file\n", Here: "link"},
		{Name: "a file becomes a link", Before: one, Text: "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n" + create("x", "120000", "y"), After: []sdk.Change{link("x", "y")}},
		{Name: "a file becomes a link by its mode", Before: one, Text: "diff --git a/x b/x\nold mode 100644\nnew mode 120000\n", Here: "link"},
		{Name: "a link becomes a file", Before: []sdk.Change{link("x", "y")}, Text: "diff --git a/x b/x\ndeleted file mode 120000\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n\\ No newline at end of file\n" + create("x", "100644", "1\n"), After: []sdk.Change{file("x", "1\n")}},
		{Name: "a link without a target", Text: "diff --git a/l b/l\nnew file mode 120000\nindex 0000000..e69de29\n", Here: "target"},
		{Name: "a link whose target has a NUL", Text: create("l", "120000", "x\x00y"), Here: "target", NotGit: true},
		{Name: "a file below a link that is made", Text: create("l", "120000", "/tmp") + create("l/x", "100644", "1\n"), Here: "l"},
		{Name: "a file below a link that is there", Before: []sdk.Change{link("l", "/tmp")}, Text: create("l/x", "100644", "1\n"), Here: "l"},

		// Binary patches.
		{Name: "binary, made", Text: binary("x", "new file mode 100644\n", "\x00new", ""), After: []sdk.Change{file("x", "\x00new")}},
		{Name: "binary, changed", Before: []sdk.Change{file("x", "\x001")}, Text: binary("x", "", "\x002", "\x001"), After: []sdk.Change{file("x", "\x002")}},
		{Name: "binary, removed", Before: []sdk.Change{file("x", "\x001")}, Text: binary("x", "deleted file mode 100644\n", "", "\x001"), After: []sdk.Change{gone("x")}},
		{Name: "binary, by a delta", Before: []sdk.Change{file("x", strings.Repeat("k", 3000)+"\x00")}, After: []sdk.Change{file("x", strings.Repeat("k", 3000)+"\x00x")},
			Text: "diff --git a/x b/x\nindex 0cfde85eeb24688f8e33bfbe4d79752aa9283bf9..077d9395fd6d5e48f82ef1e9e9e9b11a86a941b2 100644\nGIT binary patch\ndelta 9\nQcmdlfzDs<=PHx5u029#zj{pDw\n\ndelta 7\nOcmdlbzEga|PHq4VEdv$+\n\n"},
		{Name: "binary, by a delta of another file", Before: []sdk.Change{file("x", "\x00 not it")}, Here: "binary patch",
			Text: "diff --git a/x b/x\nindex 0cfde85eeb24688f8e33bfbe4d79752aa9283bf9..077d9395fd6d5e48f82ef1e9e9e9b11a86a941b2 100644\nGIT binary patch\ndelta 9\nQcmdlfzDs<=PHx5u029#zj{pDw\n\ndelta 7\nOcmdlbzEga|PHq4VEdv$+\n\n"},
		{Name: "binary, of another file", Before: []sdk.Change{file("x", "\x00 not it")}, Text: binary("x", "", "\x002", "\x001"), Here: "x"},
		{Name: "binary, without its contents", Before: []sdk.Change{file("x", "\x001")}, Text: "diff --git a/x b/x\nindex 1111111..2222222 100644\nBinary files a/x and b/x differ\n", Never: "binary"},
		{Name: "binary, with letters that are none", Before: []sdk.Change{file("x", "\x001")}, Text: "diff --git a/x b/x\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 3\n\"\"\"\"\"\"\n\n", Never: "binary patch"},
		{Name: "binary, cut", Before: []sdk.Change{file("x", "\x001")}, Text: "diff --git a/x b/x\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 3\n", Never: "binary patch"},
		{Name: "binary, larger than it says", Text: strings.Replace(binary("x", "new file mode 100644\n", strings.Repeat("\x00", 1<<20), ""), "literal 1048576", "literal 10", 1), Here: "binary patch"},
		{Name: "binary, smaller than it says", Text: strings.Replace(binary("x", "new file mode 100644\n", "\x00new", ""), "literal 4", "literal 5", 1), Here: "binary patch"},
		{Name: "binary, a bomb", Text: claims(binary("x", "new file mode 100644\n", "\x00new", ""), 66<<20), Never: "MiB"},
		{Name: "binary, a bomb in parts", Text: claims(binary("x", "new file mode 100644\n", "\x00new", ""), 40<<20) + claims(binary("y", "new file mode 100644\n", "\x00new", ""), 40<<20), Never: "MiB"},
		{Name: "binary, a bomb by a delta", Before: []sdk.Change{file("x", "\x001")}, Here: "binary patch",
			Text: "diff --git a/x b/x\nindex " + object("\x001") + ".." + object("\x002") + " 100644\nGIT binary patch\n" + half("delta", "\x02\x80\x80\x80\x80\x04\x90\x02") + "\n" + half("delta", "\x02\x02\x90\x02") + "\n"},

		// Numbers and sizes.
		{Name: "a hunk beyond the file", Before: one, Text: "--- a/x\n+++ b/x\n@@ -9223372036854775807 +1 @@\n-1\n+2\n", Here: "line", NotGit: true},
		{Name: "a hunk of more lines than numbers have", Before: one, Text: "--- a/x\n+++ b/x\n@@ -1,99999999999999999999 +1 @@\n-1\n+2\n", Never: "fragment header"},
		{Name: "a hunk of more lines than it has", Before: one, Text: "--- a/x\n+++ b/x\n@@ -1,9000000000000000000 +1 @@\n-1\n+2\n", Never: "miscounts"},
		{Name: "a hunk with a negative line", Before: one, Text: "--- a/x\n+++ b/x\n@@ --1 +1 @@\n-1\n+2\n", Never: "hunk"},
		{Name: "hunks in the wrong order", Before: []sdk.Change{file("x", "1\n2\n3\n")}, Text: "--- a/x\n+++ b/x\n@@ -3 +3 @@\n-3\n+c\n@@ -1 +1 @@\n-1\n+a\n", Here: "above"},
		{Name: "hunks that overlap", Before: []sdk.Change{file("x", "1\n2\n3\n")}, Text: "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-1\n+a\n 2\n@@ -2,2 +2,2 @@\n-2\n+b\n 3\n", Here: "above"},
		{Name: "many lines", Before: []sdk.Change{file("x", long+"1\n"+long)}, Text: "--- a/x\n+++ b/x\n@@ -60001 +60001 @@\n-1\n+2\n", After: []sdk.Change{file("x", long+"2\n"+long)}, NotGit: true},
		{Name: "a long line", Before: []sdk.Change{file("x", wide+"1\n")}, Text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-" + wide + "1\n+" + wide + "2\n", After: []sdk.Change{file("x", wide+"2\n")}},
		{Name: "cut within a hunk", Before: []sdk.Change{file("x", "1\n2\n")}, Text: "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-1\n+2\n", Never: "miscounts"},
		{Name: "no diff", Text: "see the other patch\n", Never: "no file header"},
	}
}

// claims makes a binary patch say that it makes so many bytes.
func claims(text string, size int) string {
	return strings.Replace(text, "literal 4\n", fmt.Sprintf("literal %d\n", size), 1)
}

// binary is git's binary patch of a file, both ways.
func binary(name, header, after, before string) string {
	from, to, mode := object(before), object(after), " 100644"
	switch none := strings.Repeat("0", 40); {
	case strings.HasPrefix(header, "new"):
		from, mode = none, ""
	case strings.HasPrefix(header, "deleted"):
		to, mode = none, ""
	}
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n%[2]sindex %[3]s..%[4]s%[5]s\nGIT binary patch\n%[6]s\n%[7]s\n", name, header, from, to, mode, half("literal", after), half("literal", before))
}

// object is git's name of a file's contents.
func object(data string) string {
	return fmt.Sprintf("%x", sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(data), data))))
}

// half is one direction of a binary patch.
func half(method, data string) string {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write([]byte(data))
	w.Close()
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	var out strings.Builder
	fmt.Fprintf(&out, "%s %d\n", method, len(data))
	for b := z.Bytes(); len(b) > 0; {
		line := b[:min(len(b), 52)]
		b = b[len(line):]
		if n := len(line); n <= 26 {
			out.WriteByte(byte('A' + n - 1))
		} else {
			out.WriteByte(byte('a' + n - 27))
		}
		for len(line) > 0 {
			var four [4]byte
			line = line[copy(four[:], line):]
			v := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
			var five [5]byte
			for i := range five {
				five[4-i] = digits[v%85]
				v /= 85
			}
			out.Write(five[:])
		}
		out.WriteByte('\n')
	}
	return out.String()
}

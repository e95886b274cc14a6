package patch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/valence-rl/valence/sdk"
)

// context is the number of unchanged lines around a hunk, as git's default.
const context = 3

// Diff renders changes as git does with --binary, sorted by path. before gives a file's
// former bytes (of a symbolic link: its target) and whether there was one. [Apply]
// brings the changes back.
//
// Binary is what git takes for it, and text that is no UTF-8: whoever carries a diff on
// need only carry Unicode.
//
// A change that leaves the bytes as they were counts as a change to executable if
// its Exec is set and is left out otherwise, as before tells no modes. Deleting
// what was not there is left out too.
func Diff(before func(path string) ([]byte, bool), changes []sdk.Change) string {
	sorted := slices.Clone(changes)
	slices.SortStableFunc(sorted, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	var out strings.Builder
	for _, c := range sorted {
		old, was := before(c.Path)
		switch {
		case c.Deleted && !was:
		case c.Deleted:
			deleted(&out, c.Path, old)
		case c.Symlink != "" && was:
			if string(old) != c.Symlink {
				deleted(&out, c.Path, old)
				created(&out, c.Path, "120000", []byte(c.Symlink))
			}
		case c.Symlink != "":
			created(&out, c.Path, "120000", []byte(c.Symlink))
		case !was:
			created(&out, c.Path, permission(c), c.Data)
		case !bytes.Equal(old, c.Data):
			head(&out, c.Path)
			body(&out, name("a/", c.Path), name("b/", c.Path), old, c.Data, " "+permission(c))
		case c.Exec:
			head(&out, c.Path)
			out.WriteString("old mode 100644\nnew mode 100755\n")
		}
	}
	return out.String()
}

func permission(c sdk.Change) string {
	if c.Exec {
		return "100755"
	}
	return "100644"
}

func head(out *strings.Builder, path string) {
	fmt.Fprintf(out, "diff --git %s %s\n", name("a/", path), name("b/", path))
}

func created(out *strings.Builder, path, mode string, data []byte) {
	head(out, path)
	fmt.Fprintf(out, "new file mode %s\n", mode)
	body(out, none, name("b/", path), nil, data, "")
}

func deleted(out *strings.Builder, path string, data []byte) {
	head(out, path)
	out.WriteString("deleted file mode 100644\n")
	body(out, name("a/", path), none, data, nil, "")
}

// none is the name of a file that is not there.
const none = "/dev/null"

// body renders the names of the contents and the hunks.
func body(out *strings.Builder, from, to string, a, b []byte, mode string) {
	x, y := object(a), object(b)
	if from == none {
		x = strings.Repeat("0", len(x))
	}
	if to == none {
		y = strings.Repeat("0", len(y))
	}
	if binary(a) || binary(b) {
		fmt.Fprintf(out, "index %s..%s%s\nGIT binary patch\n%s%s", x, y, mode, literal(b), literal(a))
		return
	}
	fmt.Fprintf(out, "index %s..%s%s\n", x[:7], y[:7], mode)
	if len(a) == 0 && len(b) == 0 {
		return
	}
	fmt.Fprintf(out, "--- %s\n+++ %s\n", from, to)
	old, new := split(string(a)), split(string(b))
	gone, added := edits(number(old, new))
	i, j := 0, 0
	for {
		// Unchanged lines up to the next difference.
		for i < len(old) && j < len(new) && !gone[i] && !added[j] {
			i, j = i+1, j+1
		}
		if i == len(old) && j == len(new) {
			return
		}
		i, j = hunk(out, old, new, gone, added, i, j)
	}
}

// hunk renders the hunk whose first difference is at x[i], y[j], and gives the
// place after it.
func hunk(out *strings.Builder, x, y []string, gone, added []bool, i, j int) (int, int) {
	lead := min(context, i, j)
	x0, y0 := i-lead, j-lead
	var lines strings.Builder
	for k := range lead {
		line(&lines, ' ', x[x0+k])
	}
	for {
		for i < len(x) && gone[i] {
			line(&lines, '-', x[i])
			i++
		}
		for j < len(y) && added[j] {
			line(&lines, '+', y[j])
			j++
		}
		same := 0
		for i+same < len(x) && j+same < len(y) && !gone[i+same] && !added[j+same] {
			same++
		}
		end := i+same == len(x) && j+same == len(y)
		keep := same
		if end || same > 2*context {
			keep = min(same, context)
		}
		for k := range keep {
			line(&lines, ' ', x[i+k])
		}
		i, j = i+keep, j+keep
		if end || same > 2*context {
			break
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n%s", span(x0, i), span(y0, j), lines.String())
	return i, j
}

// span writes a range as diff does: the first line from 1 and the count, or for
// no lines the line before them.
func span(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func line(out *strings.Builder, mark byte, text string) {
	out.WriteByte(mark)
	out.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		out.WriteString("\n\\ No newline at end of file\n")
	}
}

// binary is git's test, a NUL among the first 8000 bytes, or says that b is no UTF-8.
func binary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 || !utf8.Valid(b) }

// literal is a content as one half of a binary patch.
func literal(b []byte) string {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	w.Write(b) // to memory, which takes it
	w.Close()
	half := &gitdiff.BinaryFragment{Method: gitdiff.BinaryPatchLiteral, Size: int64(len(b)), RawData: packed.Bytes()}
	return half.String()
}

// object is git's name of b.
func object(b []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b))
	h.Write(b)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// name is prefix+path, in git's quotes if a byte of it could be misread. Escapes
// are octal throughout, which every reader of diffs takes.
func name(prefix, path string) string {
	plain := true
	for i := range len(path) {
		plain = plain && path[i] > ' ' && path[i] < 0x7f && path[i] != '"' && path[i] != '\\'
	}
	if plain {
		return prefix + path
	}
	var b strings.Builder
	b.WriteString(`"` + prefix)
	for i := range len(path) {
		if c := path[i]; c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

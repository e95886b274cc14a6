// Package grade is what task builders and evaluators share: unified diffs, the
// paths that an agent may not decide, honest test runs and the reading of their
// logs, and seeded choices. It is part of the guest: standard library only.
package grade

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

// FileDiff is what a unified diff does to one file.
type FileDiff struct {
	Old   string // "" for a file that is made
	New   string // "" for a file that is removed
	Mode  string // octal mode that the diff gives, e.g. "100755"; "" if none
	Hunks []Hunk
}

// Path is the file's path in the tree that the diff applies to, or, for a file
// that is made, in the tree that it leads to.
func (d *FileDiff) Path() string {
	if d.Old != "" {
		return d.Old
	}
	return d.New
}

// Hunk is one block of a diff. Starts count lines from 1.
type Hunk struct {
	OldStart, OldLines int
	NewStart, NewLines int
	Section            string // what git writes after the second @@
	// Lines begin with ' ', '-' or '+' and keep their line break, which is missing
	// where the diff says that the file has none at its end.
	Lines []string
}

// ParseDiff reads a unified diff, with or without git's extended headers. Binary
// patches, copies, and paths that leave the tree are refused.
func ParseDiff(text string) ([]FileDiff, error) {
	p := &diffParser{lines: strings.SplitAfter(text, "\n")}
	for p.at < len(p.lines) && p.err == nil {
		p.next()
	}
	if p.err == nil {
		for i := range p.files {
			p.check(&p.files[i])
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.files, nil
}

type diffParser struct {
	lines []string
	at    int
	files []FileDiff
	named bool // the last file's paths come from "--- +++" or rename lines
	err   error
}

func (p *diffParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("read diff: line %d: %s", p.at+1, fmt.Sprintf(format, args...))
	}
}

func (p *diffParser) last() *FileDiff {
	if len(p.files) == 0 {
		return nil
	}
	return &p.files[len(p.files)-1]
}

// next consumes one header line, or one whole hunk.
func (p *diffParser) next() {
	line := strings.TrimRight(p.lines[p.at], "\r\n")
	f := p.last()
	git := f != nil && len(f.Hunks) == 0 && !p.named
	switch {
	case strings.HasPrefix(line, "diff --git "):
		old, new, ok := gitPaths(line[len("diff --git "):])
		if !ok {
			p.fail("cannot tell the two paths of %q apart", line)
			return
		}
		p.files = append(p.files, FileDiff{Old: old, New: new})
		p.named = false
	case strings.HasPrefix(line, "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ "):
		old := diffPath(line[4:], "a/")
		new := diffPath(strings.TrimRight(p.lines[p.at+1], "\r\n")[4:], "b/")
		if !git || !agree(old, f.Old) || !agree(new, f.New) {
			p.files = append(p.files, FileDiff{})
			f = p.last()
		}
		f.Old, f.New = old, new
		p.named = true
		p.at++
	case strings.HasPrefix(line, "@@ "):
		if f == nil || !p.named {
			p.fail("a hunk without a file")
			return
		}
		p.hunk(f, line)
		return
	case git && strings.HasPrefix(line, "new file mode "):
		f.Old, f.Mode = "", line[len("new file mode "):]
	case git && strings.HasPrefix(line, "new mode "):
		f.Mode = line[len("new mode "):]
	case git && strings.HasPrefix(line, "deleted file mode "):
		f.New = ""
	case git && strings.HasPrefix(line, "rename from "):
		f.Old = unquote(line[len("rename from "):])
	case git && strings.HasPrefix(line, "rename to "):
		f.New = unquote(line[len("rename to "):])
	case git && (strings.HasPrefix(line, "copy from ") || strings.HasPrefix(line, "copy to ")):
		p.fail("copies are not supported")
	case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
		p.fail("binary patches are not supported")
	}
	p.at++ // index lines, old modes and prose between files say nothing
}

func (p *diffParser) hunk(f *FileDiff, header string) {
	var h Hunk
	spans, section, ok := strings.Cut(header[3:], " @@")
	old, new, two := strings.Cut(spans, " ")
	if !ok || !two || !span(old, '-', &h.OldStart, &h.OldLines) || !span(new, '+', &h.NewStart, &h.NewLines) {
		p.fail("bad hunk header %q", header)
		return
	}
	h.Section = strings.TrimSpace(section)
	p.at++
	olds, news := h.OldLines, h.NewLines
	for olds > 0 || news > 0 {
		if p.at >= len(p.lines) || p.lines[p.at] == "" {
			p.fail("the hunk is cut short")
			return
		}
		l := p.lines[p.at]
		switch {
		case l == "\n" || l == "\r\n": // an empty line of context whose blank was stripped
			l = " " + l
			olds, news = olds-1, news-1
		case l[0] == ' ':
			olds, news = olds-1, news-1
		case l[0] == '-':
			olds--
		case l[0] == '+':
			news--
		case l[0] == '\\' && len(h.Lines) > 0:
			noBreak(h.Lines)
			p.at++
			continue
		default:
			p.fail("a hunk's line starts with %q", l[:1])
			return
		}
		h.Lines = append(h.Lines, l)
		p.at++
	}
	if olds < 0 || news < 0 {
		p.fail("the hunk has more lines than its header says")
		return
	}
	if p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], `\`) && len(h.Lines) > 0 {
		noBreak(h.Lines)
		p.at++
	}
	f.Hunks = append(f.Hunks, h)
}

// agree says whether two paths can be one file's; "" stands for none.
func agree(a, b string) bool { return a == b || a == "" || b == "" }

func noBreak(lines []string) {
	l := &lines[len(lines)-1]
	*l = strings.TrimSuffix(*l, "\n")
}

func (p *diffParser) check(f *FileDiff) {
	if f.Old == "" && f.New == "" {
		p.err = fmt.Errorf("read diff: a file without a path")
	}
	for _, path := range []string{f.Old, f.New} {
		if path != "" && (path == "." || !fs.ValidPath(path)) {
			p.err = fmt.Errorf("read diff: %s: not a clean path within the tree", path)
		}
	}
}

// span reads "-3,7" or "-3".
func span(s string, sign byte, start, lines *int) bool {
	if s == "" || s[0] != sign {
		return false
	}
	a, b, both := strings.Cut(s[1:], ",")
	*lines = 1
	var err error
	if *start, err = strconv.Atoi(a); err != nil || *start < 0 {
		return false
	}
	if both {
		if *lines, err = strconv.Atoi(b); err != nil || *lines < 0 {
			return false
		}
	}
	return true
}

// gitPaths parts "a/x b/x". Where blanks make that unclear, the two halves are
// equal but for their first letter.
func gitPaths(s string) (old, new string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		q, err := strconv.QuotedPrefix(s)
		if err != nil || len(s) <= len(q) {
			return "", "", false
		}
		return diffPath(q, "a/"), diffPath(s[len(q)+1:], "b/"), true
	}
	if half := len(s) / 2; len(s)%2 == 1 && s[half] == ' ' && strings.TrimPrefix(s[:half], "a/") == strings.TrimPrefix(s[half+1:], "b/") {
		return diffPath(s[:half], "a/"), diffPath(s[half+1:], "b/"), true
	}
	if i := strings.Index(s, " b/"); i > 0 && !strings.Contains(s[i+1:], " b/") {
		return diffPath(s[:i], "a/"), diffPath(s[i+1:], "b/"), true
	}
	if old, new, ok = strings.Cut(s, " "); ok && !strings.Contains(new, " ") {
		return diffPath(old, "a/"), diffPath(new, "b/"), true
	}
	return "", "", false
}

// diffPath gives a path without prefix, quotes and time stamp; "" for /dev/null.
func diffPath(s, prefix string) string {
	s, _, _ = strings.Cut(s, "\t")
	s = unquote(s)
	if s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(s, prefix)
}

func unquote(s string) string {
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			return u
		}
	}
	return s
}

// Apply gives a file's content after d. It is strict: each line that a hunk names
// must stand exactly where the hunk says. content is nil for a file that is made.
func (d *FileDiff) Apply(content []byte) ([]byte, error) {
	old := strings.SplitAfter(string(content), "\n")
	if old[len(old)-1] == "" {
		old = old[:len(old)-1]
	}
	var b strings.Builder
	at := 0 // lines of old that are done
	for i := range d.Hunks {
		h := &d.Hunks[i]
		from := h.OldStart - 1
		if h.OldLines == 0 {
			from = h.OldStart // git names the line before an insertion
		}
		if from < at || from > len(old) {
			return nil, fmt.Errorf("apply diff: %s: hunk %d starts at line %d of %d", d.Path(), i+1, h.OldStart, len(old))
		}
		for ; at < from; at++ {
			b.WriteString(old[at])
		}
		for _, l := range h.Lines {
			if l[0] != '+' {
				if at >= len(old) || old[at] != l[1:] {
					return nil, fmt.Errorf("apply diff: %s: hunk %d does not fit at line %d", d.Path(), i+1, at+1)
				}
				at++
			}
			if l[0] != '-' {
				b.WriteString(l[1:])
			}
		}
	}
	for ; at < len(old); at++ {
		b.WriteString(old[at])
	}
	return []byte(b.String()), nil
}

// ApplyDiff gives the tree after the diffs were applied in order. The tree given
// is not changed; files that no diff touches are shared with it.
func ApplyDiff(tree []sdk.File, diffs ...string) ([]sdk.File, error) {
	tree = append([]sdk.File(nil), tree...)
	for _, text := range diffs {
		files, err := ParseDiff(text)
		if err != nil {
			return nil, err
		}
		for i := range files {
			d := &files[i]
			var f sdk.File
			at := Index(tree, d.Old)
			switch {
			case d.Old == "":
				if Index(tree, d.New) >= 0 {
					return nil, fmt.Errorf("apply diff: %s: is made, but is there already", d.New)
				}
			case at < 0:
				return nil, fmt.Errorf("apply diff: %s: no such file", d.Old)
			default:
				f = tree[at]
			}
			if f.Data, err = d.Apply(f.Data); err != nil {
				return nil, err
			}
			if d.Mode != "" {
				f.Exec = d.Mode == "100755"
			}
			f.Path = d.New
			switch {
			case d.New == "":
				if len(f.Data) > 0 {
					return nil, fmt.Errorf("apply diff: %s: is removed, but lines are left", d.Old)
				}
				tree = append(tree[:at:at], tree[at+1:]...)
			case at < 0:
				tree = append(tree, f)
			default:
				tree[at] = f
			}
		}
	}
	return tree, nil
}

// Index is the place of a path in a tree, or -1.
func Index(tree []sdk.File, path string) int {
	for i := range tree {
		if tree[i].Path == path {
			return i
		}
	}
	return -1
}

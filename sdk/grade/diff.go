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

	Link   bool // it is of a symbolic link, whose target is the contents
	Binary bool // it is a binary patch, of which the contents are not read

	renamed bool
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

// ParseDiff reads a unified diff, with or without git's extended headers. Of a binary
// patch it reads which file it changes. Refused are binary files without their contents,
// copies, submodules, paths that leave the tree or are of version
// control, names without git's prefixes, a diff whose own lines end in CRLF, and a text
// that is neither blank nor a diff.
func ParseDiff(text string) ([]FileDiff, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	p := &diffParser{lines: strings.SplitAfter(text, "\n")}
	for p.at < len(p.lines) && p.err == nil {
		p.next()
	}
	if p.err == nil && len(p.files) == 0 {
		p.err = fmt.Errorf("read diff: the text has no file header of a diff")
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
	line := strings.TrimSuffix(p.lines[p.at], "\n")
	f := p.last()
	git := f != nil && len(f.Hunks) == 0 && !p.named
	switch {
	case strings.HasPrefix(line, "diff --git "):
		old, new, ok := gitPaths(line[len("diff --git "):])
		switch {
		case strings.HasSuffix(line, "\r"):
			p.fail("the diff's own lines end in CRLF; only those of the files it changes may")
			return
		case !ok:
			p.fail("cannot tell the two paths of %q apart, or they lack the prefixes a/ and b/", line)
			return
		}
		p.files = append(p.files, FileDiff{Old: old, New: new})
		p.named = false
	case strings.HasPrefix(line, "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ "):
		if strings.HasSuffix(line, "\r") {
			p.fail("the diff's own lines end in CRLF; only those of the files it changes may")
			return
		}
		old := diffPath(line[4:], "a/")
		new := diffPath(strings.TrimSuffix(p.lines[p.at+1], "\n")[4:], "b/")
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
		p.mode(f, f.Mode)
	case git && strings.HasPrefix(line, "old mode "):
		p.mode(f, line[len("old mode "):])
	case git && strings.HasPrefix(line, "new mode "):
		f.Mode = line[len("new mode "):]
		p.mode(f, f.Mode)
	case git && strings.HasPrefix(line, "deleted file mode "):
		f.New = ""
		p.mode(f, line[len("deleted file mode "):])
	case git && strings.HasPrefix(line, "index "):
		if _, m, ok := strings.Cut(line[len("index "):], " "); ok {
			p.mode(f, m)
		}
	case git && strings.HasPrefix(line, "rename from "):
		f.Old, f.renamed = unquote(line[len("rename from "):]), true
	case git && strings.HasPrefix(line, "rename to "):
		f.New, f.renamed = unquote(line[len("rename to "):]), true
	case git && (strings.HasPrefix(line, "copy from ") || strings.HasPrefix(line, "copy to ")):
		p.fail("copies are not supported")
	case git && line == "GIT binary patch":
		f.Binary = true
	case strings.HasPrefix(line, "Binary files ") && strings.HasSuffix(line, " differ"):
		p.fail("a binary file differs, but the diff does not say how")
	}
	p.at++ // prose between files says nothing
}

// mode refuses what is neither a file nor a link.
func (p *diffParser) mode(f *FileDiff, m string) {
	switch m {
	case "100644", "100664", "100755", "100775":
	case "120000":
		f.Link = true
	case "160000":
		p.fail("a submodule, whose commits the diff does not hold")
	default:
		p.fail("mode %q is neither a file's nor a symbolic link's", m)
	}
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
	if f.Old != "" && f.New != "" && f.Old != f.New && !f.renamed {
		p.err = fmt.Errorf("read diff: the header names %q and %q but no rename", f.Old, f.New)
	}
	for _, path := range []string{f.Old, f.New} {
		if path != "" && (path == "." || !fs.ValidPath(path) || strings.IndexByte(path, 0) >= 0) {
			p.err = fmt.Errorf("read diff: %q: not a clean path within the tree", path)
		}
		for part := range strings.SplitSeq(path, "/") {
			if part == ".git" {
				p.err = fmt.Errorf("read diff: %s: a patch may not touch .git", path)
			}
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
		return prefixed(q, s[len(q)+1:])
	}
	if half := len(s) / 2; len(s)%2 == 1 && s[half] == ' ' {
		if old, new, ok := prefixed(s[:half], s[half+1:]); ok && old == new {
			return old, new, true
		}
	}
	if i := strings.Index(s, " b/"); i > 0 && !strings.Contains(s[i+1:], " b/") {
		return prefixed(s[:i], s[i+1:])
	}
	if i := strings.Index(s, ` "b/`); i > 0 {
		return prefixed(s[:i], s[i+1:])
	}
	return "", "", false
}

// prefixed takes the prefixes from two paths that have them.
func prefixed(a, b string) (old, new string, ok bool) {
	old, a2 := strings.CutPrefix(unquote(a), "a/")
	new, b2 := strings.CutPrefix(unquote(b), "b/")
	return old, new, a2 && b2
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
			case d.Link:
				return nil, fmt.Errorf("apply diff: %s: a symbolic link, which a tree of files does not hold", d.Path())
			case d.Binary:
				return nil, fmt.Errorf("apply diff: %s: a binary patch", d.Path())
			}
			if d.New != "" && d.New != d.Old {
				if err := vacant(tree, d.New); err != nil {
					return nil, err
				}
			}
			switch {
			case d.Old == "":
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

// vacant refuses a new file where something is: itself, a file that would be its
// folder, or a folder.
func vacant(tree []sdk.File, path string) error {
	for i := range tree {
		switch p := tree[i].Path; {
		case p == path:
			return fmt.Errorf("apply diff: %s: is made, but is there already", path)
		case strings.HasPrefix(path, p+"/"):
			return fmt.Errorf("apply diff: %s: %s is a file, not a directory", path, p)
		case strings.HasPrefix(p, path+"/"):
			return fmt.Errorf("apply diff: %s: is a directory", path)
		}
	}
	return nil
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

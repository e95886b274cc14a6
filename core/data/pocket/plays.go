package pocket

import (
	"regexp"
	"strings"
)

// localize greps for the function where the issue names it, for all functions
// otherwise, and writes the files down in the issue's order.
func localize(s *scene) {
	if len(s.Bugs) == 1 && s.Bugs[0].Phrasing != phraseBeh && s.dice.percent(50) {
		s.bash("grep -n 'def " + s.Bugs[0].Name + "' *.py")
	} else {
		s.bash("grep -n 'def ' *.py")
	}
	paths := make([]string, len(s.Bugs))
	for i, b := range s.Bugs {
		paths[i] = b.Path
	}
	s.create("location.txt", strings.Join(paths, "\n"))
	s.done()
}

// edit views and replaces: the shortest fragment that is unique in the file
// (60%), or the line.
func edit(s *scene) {
	for _, b := range s.Bugs {
		s.view(b.Path)
		file := s.file(b.Path)
		if s.dice.percent(60) {
			old, text := fragment(file, b.Before, b.After)
			s.replace(b.Path, old, text)
			continue
		}
		old, text := wholeLine(file, b.Before, b.After)
		s.replace(b.Path, old, text)
	}
	s.done()
}

func (s *scene) file(path string) string {
	for _, f := range s.Record.Workspace.Files {
		if f.Path == path {
			return string(f.Data)
		}
	}
	return ""
}

// wholeLine is the line without its indent, or with the line before it if it
// occurs twice.
func wholeLine(file, before, after string) (old, text string) {
	old, text = strings.TrimSpace(before), strings.TrimSpace(after)
	if strings.Count(file, old) == 1 {
		return old, text
	}
	end := strings.Index(file, "\n"+before+"\n")
	if end < 0 {
		return old, text
	}
	above := file[strings.LastIndexByte(file[:end], '\n')+1 : end]
	return above + "\n" + before, above + "\n" + after
}

var pieces = regexp.MustCompile(`\w+|\W`)

// fragment is the shortest run of at least two words or signs around the change
// that the file has once; it grows to both sides in turn.
func fragment(file, before, after string) (old, text string) {
	a := pieces.FindAllString(strings.TrimSpace(before), -1)
	b := pieces.FindAllString(strings.TrimSpace(after), -1)
	left := 0
	for left < min(len(a), len(b)) && a[left] == b[left] {
		left++
	}
	right := 0
	for right < min(len(a), len(b))-left && a[len(a)-1-right] == b[len(b)-1-right] {
		right++
	}
	for turn := 0; left > 0 || right > 0; turn++ {
		old = strings.Join(a[left:len(a)-right], "")
		if len(a)-right-left >= 2 && strings.Count(file, old) == 1 {
			return old, strings.Join(b[left:len(b)-right], "")
		}
		if left > 0 && (turn%2 == 0 || right == 0) {
			left--
		} else if right > 0 {
			right--
		}
	}
	return wholeLine(file, before, after)
}

// test takes examples from the docstring, one (20%) or both (45%), or runs a few
// calls and records what they give.
func test(s *scene) {
	b := s.Bugs[0]
	s.viewUnlessShown(b)
	cases := b.Examples
	switch u := s.dice.below(100); {
	case u < 20:
		cases = []Case{pick(s.dice, b.Examples)}
	case u >= 65:
		cases = sample(s.dice, b.Golden, s.dice.between(2, 3))
		calls := make([]string, len(cases))
		for i, c := range cases {
			calls[i] = c.Call
		}
		s.print(b, calls)
	}
	s.create(s.Record.UnitTestFile, asserts([]string{b.module()}, cases))
	s.done()
}

func (b *Bug) module() string { return strings.TrimSuffix(b.Path, ".py") }

// viewUnlessShown shows the file, so that its examples may be used, unless the
// prompt has them.
func (s *scene) viewUnlessShown(b Bug) {
	for _, e := range b.Examples {
		if !strings.Contains(s.task.Prompt, e.Call+" -> "+e.Want) {
			s.view(b.Path)
			return
		}
	}
}

// print evaluates expressions in the module. No literal of the pocket world has a
// sign that a shell reads within double quotes.
func (s *scene) print(b Bug, expressions []string) {
	s.bash(`python3 -c "from ` + b.module() + ` import *; print([` + strings.Join(expressions, ", ") + `])"`)
}

// reproduceIssue asserts what the issue says, if it says values, or what the
// docstring says.
func reproduceIssue(s *scene) {
	b := s.Bugs[0]
	head := "from " + b.module() + " import *\n"
	right := b.Phrasing == phraseFull || b.Phrasing == phraseWant
	wrong := b.Phrasing == phraseFull || b.Phrasing == phraseGot
	switch {
	case right && s.dice.percent(80):
		s.create("reproduce.py", head+"assert "+b.Case.Call+" == "+b.Case.Want)
	case wrong && s.dice.percent(70) && b.Raises:
		s.create("reproduce.py", head+b.Case.Call)
	case wrong && s.dice.percent(70):
		s.create("reproduce.py", head+"assert "+b.Case.Call+" != "+b.Got)
	default:
		s.viewUnlessShown(b)
		cases := b.Examples
		if s.dice.percent(30) {
			cases = []Case{pick(s.dice, cases)}
		}
		s.create("reproduce.py", asserts([]string{b.module()}, cases))
	}
	s.done()
}

// review checks the fix by the value that the issue wants or by the docstring's
// examples and believes what it sees. That the issue's wrong value is gone would
// tell little: most wrong fixes give another one.
func review(s *scene) {
	if s.dice.percent(20) {
		yes := s.task.Reference != nil && strings.Contains(s.task.Reference.Message, "YES")
		s.submit(func(string) string { return judgment(yes) })
		return
	}
	b := s.Bugs[0]
	right := b.Phrasing == phraseFull || b.Phrasing == phraseWant
	if right && s.dice.percent(70) {
		s.print(b, []string{b.Case.Call + " == " + b.Case.Want})
	} else {
		s.viewUnlessShown(b)
		cases := b.Examples
		if s.dice.percent(20) {
			cases = []Case{pick(s.dice, cases)}
		}
		checks := make([]string, len(cases))
		for i, c := range cases {
			checks[i] = c.Call + " == " + c.Want
		}
		s.print(b, checks)
	}
	s.submit(func(observation string) string {
		return judgment(strings.Contains(observation, "True") && !strings.Contains(observation, "False") &&
			!strings.Contains(observation, "Error"))
	})
}

func judgment(yes bool) string {
	if yes {
		return "<judgment>YES</judgment>"
	}
	return "<judgment>NO</judgment>"
}

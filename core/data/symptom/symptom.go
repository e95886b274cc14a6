// Package symptom reads off a test's log what a user would have seen go wrong, and
// words it as an issue. It is told the failing tests and their log, and never the
// change that mends them: an issue must not give the fix away.
package symptom

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk/testlog"
)

// Symptom is how one test fails.
type Symptom struct {
	Test string // its id
	Code string // what was run: the test's statements up to the one that failed, without indentation; "" if unknown
	Says string // what came out: the error's own words
}

const (
	mostCode = 14  // lines
	mostSays = 10  // lines
	longest  = 240 // bytes of a line
)

// Read finds the symptoms of the tests named in a log; tests holds the files of tests.
// format is [sdk.Record.LogParser]. Tests that the log says nothing of are left out.
func Read(format, log string, failed []string, tests map[string]string) []Symptom {
	switch format {
	case "unittest":
		return readUnittest(log, failed, tests)
	case "pytest":
		return readPytest(log, failed, tests)
	case "gotest_json":
		return readGo(log, failed, tests)
	}
	if says := ending(log); says != "" && len(failed) > 0 {
		return []Symptom{{Test: failed[0], Says: says}}
	}
	return nil
}

var (
	frame      = regexp.MustCompile(`^  File "([^"]+)", line (\d+), in `)
	shortFrame = regexp.MustCompile(`^(\S+\.py):(\d+): in `)
	pytestHead = regexp.MustCompile(`^_{3,} (.+) _{3,}$`)
	goPlace    = regexp.MustCompile(`^\s*([\w./-]+_test\.go):(\d+): ?`)
)

func readUnittest(log string, failed []string, tests map[string]string) []Symptom {
	var out []Symptom
	for _, block := range strings.Split(log, strings.Repeat("=", 70)+"\n")[1:] {
		head, body, ok := strings.Cut(block, "\n"+strings.Repeat("-", 70)+"\n")
		_, name, colon := strings.Cut(head, ": ")
		if !ok || !colon {
			continue
		}
		name, _, _ = strings.Cut(name, "\n") // a docstring follows
		id := testlog.DottedID(name)
		if !slices.Contains(failed, id) {
			continue
		}
		body, _, _ = strings.Cut(body, "\n"+strings.Repeat("-", 70)+"\n")
		s := Symptom{Test: id}
		var says []string
		framed := false
		for _, line := range strings.Split(strings.TrimRight(body, "\n"), "\n") {
			if m := frame.FindStringSubmatch(line); m != nil {
				framed = true
				says = nil
				if text, path := source(tests, m[1]); path != "" {
					n, _ := strconv.Atoi(m[2])
					s.Code = python(text, n)
				}
				continue
			}
			if framed && !strings.HasPrefix(line, "  ") || len(says) > 0 {
				says = append(says, line)
			}
		}
		s.Says = clip(says)
		out = append(out, s)
	}
	return out
}

func readPytest(log string, failed []string, tests map[string]string) []Symptom {
	var out []Symptom
	lines := strings.Split(log, "\n")
	for i := 0; i < len(lines); i++ {
		m := pytestHead.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		name := strings.ReplaceAll(m[1], ".", "::")
		at := slices.IndexFunc(failed, func(id string) bool { return strings.HasSuffix(id, "::"+name) || strings.HasSuffix(id, "::"+m[1]) })
		if at < 0 {
			continue
		}
		s := Symptom{Test: failed[at]}
		var says []string
		for i++; i < len(lines); i++ {
			line := lines[i]
			if pytestHead.MatchString(line) || strings.HasPrefix(line, "====") || strings.HasPrefix(line, "----") {
				i--
				break
			}
			if m := shortFrame.FindStringSubmatch(line); m != nil {
				if text, path := source(tests, m[1]); path != "" {
					n, _ := strconv.Atoi(m[2])
					s.Code = python(text, n)
				}
			}
			if rest, ok := strings.CutPrefix(line, "E  "); ok {
				says = append(says, strings.TrimPrefix(rest, " "))
			}
		}
		s.Says = clip(says)
		out = append(out, s)
	}
	// Runners that speak pytest's format may have the summary's lines alone.
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, "FAILED ")
		id, says, told := strings.Cut(rest, " - ")
		if ok && told && slices.Contains(failed, id) && !slices.ContainsFunc(out, func(s Symptom) bool { return s.Test == id }) {
			out = append(out, Symptom{Test: id, Says: clip([]string{says})})
		}
	}
	return out
}

func readGo(log string, failed []string, tests map[string]string) []Symptom {
	texts := map[string]*strings.Builder{}
	for line := range strings.Lines(log) {
		var e struct{ Action, Package, Test, Output string }
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action != "output" || e.Test == "" {
			continue
		}
		id := e.Package + "." + e.Test
		if !slices.Contains(failed, id) {
			continue
		}
		if texts[id] == nil {
			texts[id] = new(strings.Builder)
		}
		texts[id].WriteString(e.Output)
	}
	var out []Symptom
	for _, id := range failed {
		b := texts[id]
		if b == nil {
			continue
		}
		s := Symptom{Test: id}
		var says []string
		for line := range strings.Lines(b.String()) {
			line = strings.TrimRight(line, "\r\n")
			trimmed := strings.TrimSpace(line)
			if trimmed == "" || strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- ") || strings.HasPrefix(trimmed, "FAIL") {
				continue
			}
			if strings.HasPrefix(trimmed, "goroutine ") { // the stack names the place of the fault
				break
			}
			if m := goPlace.FindStringSubmatch(line); m != nil {
				if text, path := source(tests, m[1]); path != "" && s.Code == "" {
					n, _ := strconv.Atoi(m[2])
					s.Code = golang(text, n)
				}
				line = line[len(m[0]):]
			}
			says = append(says, line)
		}
		if s.Says = clip(says); s.Says != "" {
			out = append(out, s)
		}
	}
	if len(out) == 0 && len(failed) > 0 {
		if s, ok := unbuilt(log, tests); ok {
			s.Test = failed[0]
			out = append(out, s)
		}
	}
	return out
}

// notBuilt begins what a symptom says of tests that do not compile.
const notBuilt = "This does not compile:\n"

// unbuilt is the symptom of tests that ask for what is not there, by what the compiler
// says of them. What it says of sources tells of no use.
func unbuilt(log string, tests map[string]string) (Symptom, bool) {
	var s Symptom
	var says []string
	for line := range strings.Lines(log) {
		var e struct{ Action, Output string }
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action != "build-output" {
			continue
		}
		m := goPlace.FindStringSubmatch(e.Output)
		if m == nil {
			continue
		}
		if text, path := source(tests, strings.TrimPrefix(m[1], "./")); path != "" && s.Code == "" {
			n, _ := strconv.Atoi(m[2])
			s.Code = golang(text, n)
		}
		_, what, _ := strings.Cut(e.Output[len(m[0]):], ": ") // the column goes
		if what = strings.TrimSpace(what); what != "" && !slices.Contains(says, what) {
			says = append(says, what)
		}
	}
	if len(says) == 0 {
		return s, false
	}
	s.Says = notBuilt + clip(says)
	return s, true
}

// source finds the test file that a log names, by its path in the workspace or by the
// end of it.
func source(tests map[string]string, name string) (text, path string) {
	name = strings.TrimPrefix(name, "/workspace/")
	if text, ok := tests[name]; ok {
		return text, name
	}
	for p, text := range tests {
		if !strings.Contains(name, "/") && strings.HasSuffix("/"+p, "/"+name) && (path == "" || p < path) {
			path, _ = p, text
		}
	}
	return tests[path], path
}

// python gives the statements of the function around line n, up to the end of the one
// that begins there.
func python(text string, n int) string {
	lines := strings.Split(text, "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	from := n - 1
	for from > 0 && !strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(lines[from]), "async "), "def ") {
		from--
	}
	to := n - 1
	for depth := balance(lines[to]); depth > 0 && to+1 < len(lines) && to < n+mostCode; {
		to++
		depth += balance(lines[to])
	}
	for depth := balance(lines[from]); depth > 0 && from < n-1; { // a head of several lines
		from++
		depth += balance(lines[from])
	}
	if from >= to {
		return dedent(lines[n-1 : to+1])
	}
	return dedent(undocumented(lines[from+1 : to+1]))
}

// undocumented takes a docstring off a function's body: prose about the fault.
func undocumented(body []string) []string {
	if len(body) == 0 {
		return body
	}
	first := strings.TrimSpace(body[0])
	for _, q := range []string{`"""`, `'''`} {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(first, "r"), q)
		if !ok {
			continue
		}
		if strings.Contains(rest, q) {
			return body[1:]
		}
		for i := 1; i < len(body); i++ {
			if strings.Contains(body[i], q) {
				return body[i+1:]
			}
		}
	}
	return body
}

// golang gives the lines of the function around line n, up to there, where they are
// few; else the last of them.
func golang(text string, n int) string {
	lines := strings.Split(text, "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	from := n - 1
	for from > 0 && !strings.HasPrefix(lines[from], "func ") {
		from--
	}
	to := n - 1
	for depth := balance(lines[to]); depth > 0 && to+1 < len(lines) && to < n+mostCode; {
		to++
		depth += balance(lines[to])
	}
	if from < n-1 {
		from++
	}
	if to+1-from > mostCode {
		from = to + 1 - 6
	}
	return dedent(lines[from : to+1])
}

// balance counts open brackets; those in strings count too, which makes an excerpt
// longer at worst.
func balance(line string) int {
	n := 0
	for _, c := range line {
		switch c {
		case '(', '[', '{':
			n++
		case ')', ']', '}':
			n--
		}
	}
	return n
}

func dedent(lines []string) string {
	if len(lines) > mostCode {
		lines = lines[len(lines)-mostCode:]
	}
	least := -1
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if w := len(l) - len(strings.TrimLeft(l, " \t")); least < 0 || w < least {
			least = w
		}
	}
	var out []string
	for _, l := range lines {
		if least > 0 && len(l) >= least {
			l = l[least:]
		}
		out = append(out, strings.TrimRight(l, " \t\r"))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// clip keeps the first lines, each of bounded length.
func clip(lines []string) string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) > mostSays {
		lines = append(slices.Clone(lines[:mostSays]), "…")
	}
	var out []string
	for _, l := range lines {
		if len(l) > longest {
			l = strings.ToValidUTF8(l[:longest], "") + "…"
		}
		out = append(out, strings.ReplaceAll(l, "/workspace/", ""))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// ending is the last lines of a log.
func ending(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) > 6 {
		lines = lines[len(lines)-6:]
	}
	return clip(lines)
}

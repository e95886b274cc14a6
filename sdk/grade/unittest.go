package grade

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/testlog"
)

// unittestProgram runs Python's unittest and reports through a descriptor that it
// took away from the tests. It contains no single quote, as it travels in a pair.
//
//go:embed unittest.py
var unittestProgram string

// UnittestRun is one run of Python's unittest whose report the tested code cannot
// write by accident or by simple means:
//
//   - each line of the report carries a nonce that reaches the runner on its
//     standard input, and the last line says how many there are: a process that
//     ends early, prints "OK" or prints at import time reports nothing;
//   - what tests print goes elsewhere, and only its tail is shown after the report;
//   - the interpreter starts isolated, with the workspace behind the standard
//     library: no sitecustomize, no .pth, no planted unittest.py, no environment,
//     no compiled caches;
//   - unittest's own code, and the methods of the test classes, are compared with
//     what they were before each result counts;
//   - the test files are read before any of them runs other code, and what they
//     define is what is run, whatever the code puts in its place;
//   - a result that would equal a second, different value equals neither.
//
// Code under test shares the interpreter with the runner, so that code written to
// search the runner's frames can still cheat; a test cannot be safer than the
// language that it runs in.
type UnittestRun struct {
	Command sdk.Command
	nonce   string
}

// Interpreter finds the Python of a test command of the form
// "python3 -m unittest ...", for which [NewUnittestRun] may stand in.
func Interpreter(r *sdk.Record) (python string, ok bool) {
	words := strings.Fields(r.TestCommand)
	if r.LogParser != "unittest" || len(words) < 3 || strings.ContainsAny(r.TestCommand, "&|;<>$`\n\"'\\") {
		return "", false
	}
	name := words[0][strings.LastIndexByte(words[0], '/')+1:]
	if !strings.HasPrefix(name, "python") || words[1] != "-m" || words[2] != "unittest" {
		return "", false
	}
	modules := unittestModules(r)
	for _, m := range modules {
		// The standard library has a package of this name, which comes first.
		if top, _, _ := strings.Cut(m.name, "."); top == "test" {
			return "", false
		}
	}
	return words[0], len(modules) > 0
}

// NewUnittestRun prepares a run of r's test files by the interpreter given. Seed
// and key decide the nonce; millis is the time limit, 0 for the host's default.
// Where the workspace is an image, its site-packages stay importable.
func NewUnittestRun(r *sdk.Record, python string, seed uint64, key string, millis int64) *UnittestRun {
	u := &UnittestRun{nonce: nonce(seed, key)}
	var b strings.Builder
	b.WriteString("exec " + python + " -I ")
	if r.Workspace.Image == "" {
		b.WriteString("-S ")
	}
	b.WriteString("-B -c '" + unittestProgram + "' <<'END'\n" + u.nonce + "\n")
	for _, m := range unittestModules(r) {
		b.WriteString(m.folder + "\t" + m.name + "\n")
	}
	b.WriteString("END\n")
	u.Command = sdk.Command{Shell: b.String(), Millis: millis}
	return u
}

func nonce(seed uint64, key string) string {
	return strconv.FormatUint(Hash(seed, "nonce", key)|1<<63, 36) + strconv.FormatUint(Hash(^seed, key, "nonce")|1<<63, 36)
}

// module is a test module and the folder, relative to the workspace, from which
// its name is imported.
type module struct{ folder, name string }

// unittestModules names r's test files as its test ids do: tests/test_a.py is
// tests.test_a if an id starts with that, else test_a in the folder tests.
func unittestModules(r *sdk.Record) []module {
	var out []module
	for _, file := range r.TestFiles {
		stem, ok := strings.CutSuffix(file, ".py")
		if !ok {
			continue
		}
		parts := strings.Split(stem, "/")
		m := module{name: strings.Join(parts, ".")}
		for i := range parts {
			name := strings.Join(parts[i:], ".")
			starts := func(id string) bool { return strings.HasPrefix(testlog.DottedID(id), name+".") }
			if slices.ContainsFunc(r.FailToPass, starts) || slices.ContainsFunc(r.PassToPass, starts) {
				m = module{folder: strings.Join(parts[:i], "/"), name: name}
				break
			}
		}
		out = append(out, m)
	}
	return out
}

// Read takes the report out of a log. The error says in words why the report is
// not to be believed: it has no end, a test twice or another number of lines than
// it claims. That is the tested code's doing, so it earns 0 and is no failure of
// the host.
func (u *UnittestRun) Read(log *sdk.Log) (map[string]testlog.Status, error) {
	r := map[string]testlog.Status{}
	ended := false
	for line := range strings.SplitSeq(log.Output, "\n") {
		rest, ok := strings.CutPrefix(line, u.nonce+" ")
		if !ok {
			continue
		}
		status, id, _ := strings.Cut(rest, " ")
		switch {
		case ended:
			return nil, errors.New("the test report goes on after its end")
		case status == "end":
			if id != strconv.Itoa(len(r)) {
				return nil, fmt.Errorf("the test report has %d lines and claims %s", len(r), id)
			}
			ended = true
		case status == "tampered":
			return nil, fmt.Errorf("the code changed unittest itself by the end of %s", id)
		default:
			if _, twice := r[id]; twice {
				return nil, fmt.Errorf("the test report names %s twice", id)
			}
			r[id] = statusOf(status)
		}
	}
	switch {
	case ended:
		return r, nil
	case log.TimedOut:
		return nil, errors.New("the tests did not end within the time limit")
	}
	return nil, fmt.Errorf("the test process ended early, with exit status %d", log.ExitCode)
}

// Tail is the end of what the tests printed.
func (u *UnittestRun) Tail(log *sdk.Log) string {
	i := strings.LastIndex(log.Output, u.nonce+" end ")
	if i < 0 {
		return log.Output
	}
	_, tail, _ := strings.Cut(log.Output[i:], "\n")
	return tail
}

// statusOf reads the runner's word. What it does not say has failed.
func statusOf(word string) testlog.Status {
	switch word {
	case "passed":
		return testlog.Passed
	case "skipped":
		return testlog.Skipped
	}
	return testlog.Failed
}

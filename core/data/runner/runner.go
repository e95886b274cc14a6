// Package runner knows how the tests of a tree are run: by which command, which tests
// it names in which form, and what counts as a test and as a source. A table holds
// what is known; a file in TOML adds other languages to it.
package runner

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/testlog"
)

// Runner is one entry of the table. Commands are templates: {files} stands for test
// files, {modules} for the same as dotted names, {folders} for their folders as ./a.
type Runner struct {
	Name     string   `toml:"name"`
	Language string   `toml:"language"` // as in a record
	Sources  []string `toml:"sources"`  // extensions, with their dot
	Tests    []string `toml:"tests"`    // globs of base names
	Root     string   `toml:"root"`     // a file that the tree has at its root; "": none is needed
	Contents string   `toml:"contents"` // a regular expression that a test file matches; "": none is needed
	Unit     Unit     `toml:"unit"`     // what a command runs together
	Command  string   `toml:"command"`  // runs test files and names each test with its status
	Parser   string   `toml:"parser"`   // how its output is read; see sdk.Record.LogParser
	UnitTest string   `toml:"unit_test"`
	Env      []string `toml:"env"` // KEY=VALUE of every command
	// Functions is how functions are found: "python", "go", or a regular expression
	// for the line that begins one, whose first group is the name.
	Functions string `toml:"functions"`
	Needs     string `toml:"needs"` // a command that succeeds where the runner can work; "": not asked
	Hint      string `toml:"hint"`  // what to do where it fails

	contents, functions *regexp.Regexp
}

// Unit is what one call of a command runs together.
type Unit string

// The units: a test file by itself, or all test files of a folder.
const (
	File   Unit = "file"
	Folder Unit = "folder"
)

// Function gives the expression that finds functions; nil where the language has a
// parser of its own.
func (r *Runner) Function() *regexp.Regexp { return r.functions }

// IsTest says whether a path is a test file.
func (r *Runner) IsTest(p string) bool {
	if !r.isSource(p) {
		return false
	}
	base := path.Base(p)
	return slices.ContainsFunc(r.Tests, func(glob string) bool { ok, _ := path.Match(glob, base); return ok })
}

// IsSource says whether a path is a source file that is no test, by the runner's
// habits and by those that the skills know.
func (r *Runner) IsSource(p string) bool {
	return r.isSource(p) && !r.IsTest(p) && !grade.IsTest(p) && !grade.Configures(p)
}

func (r *Runner) isSource(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "vendor" || part == "testdata" || part == Deps {
			return false
		}
	}
	return slices.Contains(r.Sources, path.Ext(p))
}

// Deps is the folder of a workspace where prepared dependencies lie.
const Deps = ".deps"

// Group is the test files of a unit.
type Group struct {
	Name  string // the file, or the folder
	Files []string
}

// Groups gives the units of a tree's test files, in the files' order.
func (r *Runner) Groups(files []sdk.File) []Group {
	var out []Group
	at := map[string]int{}
	for _, f := range files {
		if !r.IsTest(f.Path) || r.Unit == File && r.contents != nil && !r.contents.Match(f.Data) {
			continue
		}
		name := f.Path
		if r.Unit == Folder {
			name = path.Dir(f.Path)
		}
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, Group{Name: name})
		}
		out[i].Files = append(out[i].Files, f.Path)
	}
	return out
}

// Line is the command that runs test files.
func (r *Runner) Line(files ...string) string { return fill(r.Command, files) }

// UnitTestLine is the command that runs one test file, for the unit-test skill: its
// exit status 0 says that the tests passed.
func (r *Runner) UnitTestLine(file string) string { return fill(r.UnitTest, []string{file}) }

func fill(template string, files []string) string {
	var names, modules, folders []string
	add := func(list []string, s string) []string {
		if slices.Contains(list, s) {
			return list
		}
		return append(list, s)
	}
	for _, f := range files {
		names = add(names, quote(f))
		modules = add(modules, quote(strings.ReplaceAll(strings.TrimSuffix(f, path.Ext(f)), "/", ".")))
		folder := "./" + path.Dir(f)
		if folder == "./." {
			folder = "."
		}
		folders = add(folders, quote(folder))
	}
	return strings.NewReplacer("{files}", strings.Join(names, " "), "{modules}", strings.Join(modules, " "), "{folders}", strings.Join(folders, " ")).Replace(template)
}

// quote gives a word of a shell's command.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c == '_' || c == '-' || c == '.' || c == '/' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Parse reads a log of the runner.
func (r *Runner) Parse(log string) (*testlog.Results, error) { return testlog.Parse(r.Parser, log) }

// Package reproduce derives, from a failing test, a script of the issue-reproduction
// skill: it fails while the fault is there and succeeds once it is mended. Whether a
// script does so is the caller's to find out.
package reproduce

import (
	"context"
	_ "embed"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/sdk"
)

//go:embed reduce.py
var reduceProgram string

// Scripts gives scripts for a failing test of a test file, the plainest first; none
// where the language's runner is not known. An error is of the host.
func Scripts(ctx context.Context, lab *trial.Lab, file sdk.File, test string) ([]string, error) {
	switch lab.Runner.Name {
	case "unittest", "pytest":
		return python(ctx, lab, file, test)
	case "go":
		return golang(file, test), nil
	}
	return nil, nil
}

// File is where the skill expects the script of a language, and the command that runs it.
func File(language string) (name, command string) {
	switch strings.ToLower(language) {
	case "python":
		return "reproduce.py", "python3 reproduce.py"
	case "go":
		return "reproduce.go", "go run reproduce.go"
	}
	return "", ""
}

func python(ctx context.Context, lab *trial.Lab, file sdk.File, test string) ([]string, error) {
	module := strings.ReplaceAll(strings.TrimSuffix(file.Path, ".py"), "/", ".")
	name := ""
	if lab.Runner.Name == "pytest" {
		_, name, _ = strings.Cut(test, "::")
		name, _, _ = strings.Cut(name, "[")
		name = strings.ReplaceAll(name, "::", ".")
	} else if rest, ok := strings.CutPrefix(test, module+"."); ok {
		name = rest
	}
	if name == "" {
		return nil, nil
	}
	w := trial.NewWorkspace(sdk.Workspace{Files: []sdk.File{{Path: "reduce.py", Data: []byte(reduceProgram)}, {Path: "given.py", Data: file.Data}}})
	answer, err := lab.Run(ctx, &sdk.RunRequest{Workspace: w.Workspace, Commands: []sdk.Command{{
		Shell: "python3 -I -S reduce.py given.py " + quote(module) + " " + lab.Runner.Name + " " + quote(name),
	}}})
	if err != nil {
		return nil, err
	}
	var out []string
	if log := &answer.Logs[0]; log.ExitCode == 0 && !log.Truncated && !log.TimedOut {
		out = append(out, log.Output)
	}
	return append(out, whole(lab.Runner.Name, file, module, name)), nil
}

// whole is a script that carries the test file as it is, for tests that need more of
// it than can be told apart.
func whole(kind string, file sdk.File, module, name string) string {
	var b strings.Builder
	if kind == "pytest" {
		target := path.Join(path.Dir(file.Path), "test_reproduce_issue.py")
		b.WriteString("import os\nimport sys\n\nimport pytest\n\nTESTS = " + literal(string(file.Data)) + "\n\n")
		b.WriteString("path = " + literal(target) + "\nos.makedirs(os.path.dirname(path) or \".\", exist_ok=True)\n")
		b.WriteString("with open(path, \"w\", encoding=\"utf-8\") as f:\n    f.write(TESTS)\n")
		b.WriteString("sys.exit(pytest.main([\"-rA\", \"--tb=short\", \"-p\", \"no:cacheprovider\", \"-o\", \"addopts=\", path + " + literal("::"+strings.ReplaceAll(name, ".", "::")) + "]))\n")
		return b.String()
	}
	b.WriteString("import sys\nimport types\nimport unittest\n\nTESTS = " + literal(string(file.Data)) + "\n\n")
	b.WriteString("module = types.ModuleType(" + literal(module) + ")\nmodule.__file__ = " + literal(file.Path) + "\n")
	if i := strings.LastIndexByte(module, '.'); i >= 0 {
		b.WriteString("module.__package__ = " + literal(module[:i]) + "\n__import__(module.__package__)\n")
	}
	b.WriteString("sys.modules[module.__name__] = module\nexec(compile(TESTS, module.__file__, \"exec\"), vars(module))\n")
	b.WriteString("suite = unittest.defaultTestLoader.loadTestsFromName(" + literal(name) + ", module)\n")
	b.WriteString("sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())\n")
	return b.String()
}

// literal is a Python string. Go's quoted form is one, but for what lies beyond ASCII.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			b.WriteString(`\x` + strconv.FormatInt(int64(c)+0x100, 16)[1:])
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var testName = regexp.MustCompile(`^Test[A-Za-z0-9_]*$`)

// golang is a program that puts the test file where it belongs and runs the test: most
// tests reach into their package, which a program cannot.
func golang(file sdk.File, test string) []string {
	// The id is package.TestName/subtest, and a package's path has dots, too.
	name := test
	if i := strings.LastIndex(test, ".Test"); i >= 0 {
		name, _, _ = strings.Cut(test[i+1:], "/")
	}
	if !testName.MatchString(name) {
		return nil
	}
	dir := path.Dir(file.Path)
	target := path.Join(dir, "reproduce_issue_test.go")
	folder := "./" + dir
	if dir == "." {
		folder = "."
	}
	var b strings.Builder
	b.WriteString("//go:build ignore\n\npackage main\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n)\n\nconst tests = " + strconv.Quote(string(file.Data)) + "\n\n")
	b.WriteString("func main() {\n\tif err := os.WriteFile(" + strconv.Quote(target) + ", []byte(tests), 0o644); err != nil {\n\t\tpanic(err)\n\t}\n")
	b.WriteString("\tcmd := exec.Command(\"go\", \"test\", \"-count=1\", \"-vet=off\", \"-run\", " + strconv.Quote("^"+name+"$") + ", " + strconv.Quote(folder) + ")\n")
	b.WriteString("\tcmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr\n\tif err := cmd.Run(); err != nil {\n\t\tos.Exit(1)\n\t}\n}\n")
	return []string{b.String()}
}

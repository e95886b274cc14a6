package mutate

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// Function is a piece of a file that can be broken.
type Function struct {
	Path  string
	Name  string // Class.method for a method
	Line  int    // 1-based, of its first line
	End   int    // of its last
	Edits []Edit
}

func (f *Function) key() string { return f.Path + "\x00" + f.Name + "\x00" + strconv.Itoa(f.Line) }

// bare is the name by which a test calls it.
func (f *Function) bare() string { return f.Name[strings.LastIndexByte(f.Name, '.')+1:] }

// Edit replaces the bytes from Start to End of a file.
type Edit struct {
	Start, End int
	New        string
	Operator   string
}

// apply gives the file after the edit.
func (e *Edit) apply(data []byte) []byte {
	return slices.Concat(data[:e.Start], []byte(e.New), data[e.End:])
}

//go:embed edits.py
var editsProgram string

// Find gives the functions of the sources of a tree, by path and line.
func Find(ctx context.Context, lab *trial.Lab, files []sdk.File) ([]Function, error) {
	var sources []sdk.File
	for _, f := range files {
		if lab.Runner.IsSource(f.Path) && !aside(f.Path) && len(f.Data) <= 512<<10 {
			sources = append(sources, f)
		}
	}
	var out []Function
	var err error
	switch lab.Runner.Functions {
	case "go":
		out = goFunctions(sources)
	case "python":
		out, err = pythonFunctions(ctx, lab, sources)
	default:
		out = lexicalFunctions(lab.Runner.Function(), sources)
	}
	return sound(out), err
}

// aside says whether a path is of what surrounds a package and is not tested with it.
func aside(p string) bool {
	for part := range strings.SplitSeq(path.Dir(p), "/") {
		switch part {
		case "doc", "docs", "example", "examples", "bench", "benchmarks", "scripts", "tools", "cmd", "vendor", "third_party", "_vendor", "testing":
			return true
		}
	}
	switch p {
	case "setup.py", "noxfile.py", "tasks.py", "doc.go":
		return true
	}
	return strings.HasSuffix(p, ".pb.go")
}

// pythonFunctions has a sandbox's Python parse the files.
func pythonFunctions(ctx context.Context, lab *trial.Lab, files []sdk.File) ([]Function, error) {
	const batch = 8
	var out []Function
	for part := range slices.Chunk(files, batch) {
		w := trial.NewWorkspace(sdk.Workspace{Files: append([]sdk.File{{Path: ".edits.py", Data: []byte(editsProgram)}}, part...)})
		shell := "python3 -I -S .edits.py"
		for _, f := range part {
			shell += " '" + strings.ReplaceAll(f.Path, "'", `'\''`) + "'"
		}
		text, err := lab.Output(ctx, w, shell)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines([]byte(text)) {
			var f struct {
				Path, Name string
				Line, End  int
				Edits      [][]any
			}
			if err := json.Unmarshal(line, &f); err != nil {
				return nil, diag.Wrap(diag.KindSandbox, "find functions", "", err)
			}
			i := slices.IndexFunc(part, func(p sdk.File) bool { return p.Path == f.Path })
			if i < 0 {
				return nil, diag.Errorf(diag.KindSandbox, "find functions", f.Path, "the sandbox names a file that it was not given")
			}
			fn := Function{Path: f.Path, Name: f.Name, Line: f.Line, End: f.End}
			for _, e := range f.Edits {
				if edit, ok := readEdit(e, len(part[i].Data)); ok {
					fn.Edits = append(fn.Edits, edit)
				}
			}
			out = append(out, fn)
		}
	}
	return out, nil
}

// sound drops edits that take away more than a line or two, and functions that are
// data: nothing but constants to change in many places.
func sound(functions []Function) []Function {
	const long, many = 160, 20
	var out []Function
	for _, f := range functions {
		f.Edits = slices.DeleteFunc(f.Edits, func(e Edit) bool { return e.End-e.Start > long })
		logic := 0
		for _, e := range f.Edits {
			if e.Operator != "constant" && e.Operator != "off by one" && e.Operator != "return" && e.Operator != "negation" {
				logic++
			}
		}
		if len(f.Edits) > 0 && (len(f.Edits) < many || logic*10 >= len(f.Edits)) {
			out = append(out, f)
		}
	}
	return out
}

// readEdit reads [start, end, new, operator] within a file of n bytes.
func readEdit(v []any, n int) (e Edit, ok bool) {
	if len(v) != 4 {
		return e, false
	}
	start, a := v[0].(float64)
	end, b := v[1].(float64)
	e.Start, e.End = int(start), int(end)
	var c, d bool
	e.New, c = v[2].(string)
	e.Operator, d = v[3].(string)
	return e, a && b && c && d && 0 <= e.Start && e.Start <= e.End && e.End <= n
}

// inOrder gives the edits of a function in an order that the seed decides, operators
// taking turns: a function's many constants do not crowd out its one comparison.
func inOrder(f *Function, seed uint64) []Edit {
	byOperator := map[string][]Edit{}
	var operators []string
	for _, i := range grade.Order(len(f.Edits), seed, f.key()) {
		e := f.Edits[i]
		if len(byOperator[e.Operator]) == 0 {
			operators = append(operators, e.Operator)
		}
		byOperator[e.Operator] = append(byOperator[e.Operator], e)
	}
	var out []Edit
	for len(out) < len(f.Edits) {
		for _, o := range operators {
			if list := byOperator[o]; len(list) > 0 {
				out, byOperator[o] = append(out, list[0]), list[1:]
			}
		}
	}
	return out
}

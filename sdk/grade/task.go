package grade

import (
	"errors"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/prompt"
)

// BuildTask completes the one task of a record: key, names, meta and the messages
// of the template that the request chooses among full, brief and its own. Values
// add to those that every template may use: workspace, language and files. A
// record that lacks a text the template needs is skipped; a template that names
// what nobody knows is an error.
func BuildTask(r *sdk.BuildRequest, task sdk.Task, full, brief string, values ...prompt.Value) (*sdk.BuildResponse, error) {
	t, err := prompt.Choose(r.Template, full, brief)
	if err != nil {
		return nil, err
	}
	rec := &r.Record
	files := prompt.Value{Name: "files", Text: strings.Join(SourceFiles(rec), " ")}
	if len(rec.Workspace.Files) == 0 {
		files.Absent = "the files of the workspace are not listed in the record"
	}
	values = append(values,
		prompt.Value{Name: "workspace", Text: Dir(&rec.Workspace)},
		prompt.Value{Name: "language", Text: rec.Language},
		files)
	task.System, task.Prompt, err = t.Fill(values)
	if err != nil {
		var bad *prompt.Error
		if errors.As(err, &bad) && bad.Absent {
			return Skip("%v", err), nil
		}
		return nil, err
	}
	task.Key = task.Skill + "/" + rec.ID
	task.Record = rec.ID
	task.Meta = rec.Meta
	return &sdk.BuildResponse{Tasks: []sdk.Task{task}}, nil
}

// Dir is where a workspace lies in the sandbox.
func Dir(w *sdk.Workspace) string {
	if w.Dir == "" {
		return "/workspace"
	}
	return w.Dir
}

// SourceFiles are the paths of the workspace's sources that are no tests, in the
// record's order.
func SourceFiles(r *sdk.Record) []string {
	var out []string
	for _, f := range r.Workspace.Files {
		if IsSource(r.Language, f.Path) && !IsTest(f.Path) {
			out = append(out, f.Path)
		}
	}
	return out
}

package formats

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/sdk"
)

// SWEBenchRow makes a row of SWE-bench of a record, as a line of JSON without its end:
// the columns of the data set and those that Meta keeps. It promises that the row,
// imported, is the record again; one whose row would not be is an error that names the
// fields which such a row cannot hold.
func SWEBenchRow(rec *sdk.Record) ([]byte, error) {
	if field := unclean(reflect.ValueOf(rec).Elem(), ""); field != "" {
		return nil, fmt.Errorf("a row of SWE-bench cannot hold %s: not UTF-8", field)
	}
	var fields []rows.Field
	text := func(name, s string) { fields = append(fields, rows.Field{Name: name, Value: rows.Value{Text: s}}) }
	optional := func(name, s string) {
		if s != "" {
			text(name, s)
		}
	}
	text("repo", rec.Repo)
	text("instance_id", rec.ID)
	text("base_commit", rec.BaseCommit)
	text("patch", rec.Patch)
	text("test_patch", rec.TestPatch)
	text("problem_statement", rec.Problem)
	fields = append(fields, rows.Field{Name: "FAIL_TO_PASS", Value: list(rec.FailToPass)}, rows.Field{Name: "PASS_TO_PASS", Value: list(rec.PassToPass)})
	optional("image", rec.Workspace.Image)
	optional("log_parser", rec.LogParser)
	for _, p := range rec.Meta {
		name, isJSON := strings.CutSuffix(p.Key, jsonKey)
		if isJSON && json.Valid([]byte(p.Value)) {
			fields = append(fields, rows.Field{Name: name, Value: rows.Value{JSON: []byte(p.Value)}})
		} else {
			text(p.Key, p.Value)
		}
	}
	r := newRow(fields)
	back := sweBench(r)
	if r.bad != nil {
		return nil, fmt.Errorf("the row would be refused: %w", r.bad)
	}
	if lost := records.Differences(rec, back); len(lost) > 0 || len(r.at) != len(fields) {
		return nil, fmt.Errorf("a row of SWE-bench cannot hold %s", strings.Join(lost, ", "))
	}
	b := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.Value.Append(append(rows.AppendText(b, f.Name), ':'))
	}
	return append(b, '}'), nil
}

func list(texts []string) rows.Value {
	b := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = rows.AppendText(b, s)
	}
	return rows.Value{JSON: append(b, ']')}
}

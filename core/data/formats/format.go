// Package formats makes records of the field's data sets. A format is an entry of one
// table: its name, the columns that tell it, and how a row becomes a record. Columns
// that no format knows are kept in the record's Meta.
package formats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/sdk"
)

// Format is one layout of rows.
type Format struct {
	Name    string // as --format takes it, and the record's Source
	About   string // in words
	columns []string
	without []string        // columns that it never has
	claims  func(*row) bool // a further look at the first row; nil: none is needed
	record  func(*row) *sdk.Record
}

// Records and Harbor are the names of the formats that are no table of columns: Valence's
// own file, and folders of tasks.
const (
	Records = "records"
	Harbor  = "harbor"
)

// table has the formats of rows, those that are told by more columns first.
var table = []Format{
	{Name: "r2egym", About: "R2E-Gym", columns: []string{"repo_name", "docker_image", "commit_hash", "parsed_commit_content"}, record: r2e},
	{Name: "swegym", About: "SWE-Gym", columns: []string{"instance_id", "repo", "base_commit", "patch", "test_patch", "FAIL_TO_PASS"},
		without: []string{"image", "eval_script", "environment_setup_commit"}, claims: ofSWEGym, record: sweGym},
	{Name: "swebench", About: "SWE-bench, Lite, Verified, Multilingual, and what has their columns",
		columns: []string{"instance_id", "repo", "base_commit", "patch", "problem_statement", "FAIL_TO_PASS"}, record: sweBench},
	{Name: "swesmith", About: "SWE-smith, whose patch introduces the bug", columns: []string{"instance_id", "repo", "patch", "image_name", "FAIL_TO_PASS"},
		without: []string{"base_commit"}, record: sweSmith},
}

// Names lists what --format takes.
func Names() []string {
	out := []string{Records, Harbor}
	for _, f := range table {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}

// own are columns that a line of a records file has.
func own(r *row) bool {
	_, id := r.at["ID"]
	_, wrong := r.at["instance_id"]
	return id && !wrong
}

// detect finds a file's format by the columns of its first row.
func detect(fields []rows.Field) (*Format, error) {
	r := newRow(fields)
	if own(r) {
		return &Format{Name: Records}, nil
	}
	var nearest *Format
	var missing []string
	for i := range table {
		f := &table[i]
		lacks := f.lacks(r)
		if len(lacks) == 0 && !f.excluded(r) && (f.claims == nil || f.claims(r)) {
			return f, nil
		}
		if nearest == nil || len(lacks) > 0 && len(f.columns)-len(lacks) > len(nearest.columns)-len(missing) {
			nearest, missing = f, lacks
		}
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	text := fmt.Sprintf("the columns %s are those of no format that is known", strings.Join(names, ", "))
	if n := len(nearest.columns) - len(missing); n > 1 && len(missing) > 0 {
		text += fmt.Sprintf("; %s would also have %s", nearest.Name, strings.Join(missing, ", "))
	}
	return nil, fmt.Errorf("%s; name the format if it is one: %s", text, strings.Join(Names(), ", "))
}

func (f *Format) lacks(r *row) []string {
	var out []string
	for _, c := range f.columns {
		if _, ok := r.at[c]; !ok {
			out = append(out, c)
		}
	}
	return out
}

func (f *Format) excluded(r *row) bool {
	return slices.ContainsFunc(f.without, func(c string) bool { _, ok := r.at[c]; return ok })
}

// named finds a format of rows.
func named(name string) (*Format, error) {
	if name == Records {
		return &Format{Name: Records}, nil
	}
	for i := range table {
		if table[i].Name == name {
			return &table[i], nil
		}
	}
	return nil, fmt.Errorf("no format is called %q; there are %s", name, strings.Join(Names(), ", "))
}

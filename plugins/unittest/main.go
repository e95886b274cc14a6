// Unit tests: given correct functions, write tests that pass on them and fail on
// every faulty variant (ALGORITHMS 1, equation 5). The answer is the test file.
package main

import (
	"context"
	_ "embed"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/prompt"
)

// The skill's own keys of the run's TOML.
const (
	optPartial = "partial"      // score the share of mutants caught; default false: all or nothing
	optMutants = "mutants"      // the most mutants of a task, 1 to 16; default 16
	optFrom    = "mutants_from" // record (default), model, both
)

const maxMutants = 16

var (
	//go:embed prompts/full.txt
	full string
	//go:embed prompts/brief.txt
	brief string
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "unittest", "0.1.0" }

type options struct {
	partial bool
	mutants int
	from    string
}

func read(config []sdk.Pair) (o options, err error) {
	opts, err := grade.ReadOptions(config, optPartial, optMutants, optFrom)
	if err != nil {
		return o, err
	}
	if o.partial, err = opts.Bool(optPartial, false); err != nil {
		return o, err
	}
	if o.mutants, err = opts.Int(optMutants, maxMutants, 1, maxMutants); err != nil {
		return o, err
	}
	o.from, err = opts.Word(optFrom, "record", "record", "model", "both")
	return o, err
}

// Build makes a task of a record with a mutant; the workspace has the gold patch.
// The mutants are the record's, or the model's as far as the golden tests catch them.
func (skill) Build(ctx context.Context, h sdk.Host, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
	o, err := read(r.Config)
	if err != nil {
		return nil, err
	}
	rec := &r.Record
	switch {
	case len(rec.Mutants) == 0 && o.from == "record":
		return grade.Skip("the record has no mutant"), nil
	case len(rec.Targets) == 0:
		return grade.Skip("the record names no function to test"), nil
	case rec.UnitTestFile == "" || rec.UnitTestCommand == "":
		return grade.Skip("the record names no unit-test file or no command for it"), nil
	}
	w := rec.Workspace
	if rec.Patch != "" {
		w.Patches = append(w.Patches[:len(w.Patches):len(w.Patches)], rec.Patch)
	}
	var all []sdk.Mutant
	if o.from != "model" {
		all = rec.Mutants
	}
	if o.from != "record" {
		more, why, err := modelled(ctx, h, r, w, o.mutants)
		if err != nil {
			return nil, err
		}
		if all = append(all[:len(all):len(all)], more...); len(all) == 0 {
			return grade.Skip("no mutant: %s", why), nil
		}
	}
	var mutants []sdk.Mutant
	for _, i := range grade.Order(len(all), r.Seed, rec.ID)[:min(len(all), o.mutants)] {
		mutants = append(mutants, all[i])
	}
	separator := "\n"
	if r.Template == "brief" {
		separator = ", "
	}
	task := sdk.Task{
		Skill:     "unittest",
		Workspace: w,
		Collect:   []string{grade.Exact(rec.UnitTestFile)},
		Hidden: grade.Hide(&sdk.Record{
			ID: rec.ID, Language: rec.Language, Workspace: w, Targets: rec.Targets, Mutants: mutants,
			UnitTestFile: rec.UnitTestFile, UnitTestCommand: rec.UnitTestCommand,
		}),
	}
	if rec.TestReference != "" {
		task.Reference = &sdk.Reference{Changes: []sdk.Change{{Path: rec.UnitTestFile, Data: []byte(rec.TestReference)}}}
	}
	return grade.BuildTask(r, task, full, brief,
		prompt.Value{Name: "function_list", Text: strings.Join(functions(rec.Targets, mutants), separator)},
		prompt.Value{Name: "test_list", Text: rec.UnitTestFile},
		prompt.Value{Name: "exec_comand", Text: rec.UnitTestCommand})
}

// functions lists the targets that have a mutant, or, where the mutants name none
// of them, all.
func functions(targets []sdk.Target, mutants []sdk.Mutant) []string {
	var mutated, all []string
	for _, t := range targets {
		place := grade.Place{Path: t.Path, Name: t.Name}.String()
		all = append(all, place)
		for _, m := range mutants {
			if m.Target == t.Name {
				mutated = append(mutated, place)
				break
			}
		}
	}
	if len(mutated) == 0 {
		return all
	}
	return mutated
}

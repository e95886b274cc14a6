// Package report reads a run directory and shows what the run achieved: one
// self-contained page for a browser and a table for a terminal. Everything is
// derived from what the run stored, so a report of a run that was killed and
// resumed is the same as that of one that was not.
package report

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/eval"
	"github.com/valence-rl/valence/core/journal"
)

// Report is what is known of a run.
type Report struct {
	Name    string
	Planned int // steps that the configuration asks for; 0: unknown
	State   journal.State
	Steps   []journal.Step // oldest first
	Evals   []journal.Eval // by step
	Swaps   []journal.Swap // oldest first
	Config  string         // the resolved configuration; "" if none is stored

	// Splits holds what was measured, one for each split: first the trained skills' own.
	Splits []Split
	// Warnings are sentences that deserve attention.
	Warnings []string

	seed    uint64 // of the resampling
	tools   []toolStep
	samples []sample
}

// Split compares the first and the last evaluation of one split.
type Split struct {
	Name    string
	Before  *journal.Eval // nil if only one was made
	After   journal.Eval
	Summary eval.Summary // with one evaluation only, of that against itself

	rows []row
	mean row
}

// row is one line of the comparison.
type row struct {
	name                 string
	tasks                int
	before, after, delta interval
}

// toolStep is the mean number of calls an episode of one step made, by tool.
type toolStep struct {
	step     int
	episodes int
	calls    map[string]int
	tokens   map[string][2]int // skill → sampled tokens, episodes
}

// Load reads the run directory dir. A folder without a step and without an
// evaluation is a diag.Error of KindData.
func Load(dir string) (*Report, error) {
	d := journal.Dir(dir)
	r := &Report{Name: filepath.Base(dir), seed: 1}
	if abs, err := filepath.Abs(dir); err == nil {
		r.Name = filepath.Base(abs)
	}
	var err error
	if r.Steps, err = d.Steps(); err != nil {
		return nil, err
	}
	if r.Evals, err = d.Evals(); err != nil {
		return nil, err
	}
	if len(r.Steps) == 0 && len(r.Evals) == 0 {
		return nil, diag.Errorf(diag.KindData, "read run", dir, "no complete step and no evaluation there; name a run's folder, e.g. runs/quickstart")
	}
	if r.State, _, err = d.State(); err != nil {
		return nil, err
	}
	if r.Swaps, err = d.Swaps(); err != nil {
		return nil, err
	}
	if err := r.readConfig(d); err != nil {
		return nil, err
	}
	r.compare()
	if err := r.readEpisodes(d); err != nil {
		return nil, err
	}
	r.warn()
	return r, nil
}

// Write reads the run directory dir and writes its report.html.
func Write(dir string) (*Report, error) {
	r, err := Load(dir)
	if err != nil {
		return nil, err
	}
	return r, r.WriteFile(dir)
}

func (r *Report) readConfig(d journal.Dir) error {
	b, err := os.ReadFile(d.Path("config.toml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diag.Wrap(diag.KindData, "read run", d.Path("config.toml"), err)
	}
	r.Config = string(b)
	var c struct {
		Run struct {
			Name  string
			Steps int
			Seed  uint64
		}
	}
	if err := toml.Unmarshal(b, &c); err != nil {
		return diag.Wrap(diag.KindData, "read run", d.Path("config.toml"), err)
	}
	if c.Run.Name != "" {
		r.Name = c.Run.Name
	}
	r.Planned = c.Run.Steps
	r.seed = max(1, c.Run.Seed)
	return nil
}

// LastStep is the newest complete step; 0 before the first.
func (r *Report) LastStep() int {
	n := 0
	if len(r.Steps) > 0 {
		n = r.Steps[len(r.Steps)-1].Step
	}
	if len(r.Evals) > 0 {
		n = max(n, r.Evals[len(r.Evals)-1].Step)
	}
	return n
}

// Skills lists every skill that appears, the trained ones first.
func (r *Report) Skills() []string {
	var out []string
	add := func(n string) {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, e := range r.Evals {
		if e.Split == "eval" {
			for _, s := range e.Skills {
				add(s.Name)
			}
		}
	}
	for _, s := range r.Steps {
		for _, n := range slices.Sorted(maps.Keys(s.Skills)) {
			add(n)
		}
	}
	for _, e := range r.Evals {
		for _, s := range e.Skills {
			add(s.Name)
		}
	}
	return out
}

// readEpisodes takes from the stored episodes what the metrics do not have.
func (r *Report) readEpisodes(d journal.Dir) error {
	for _, s := range r.Steps {
		t := toolStep{step: s.Step, calls: map[string]int{}, tokens: map[string][2]int{}}
		last := s.Step == r.Steps[len(r.Steps)-1].Step
		for e, err := range d.Episodes(s.Step) {
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return err
			}
			if e.Outcome != journal.Scored {
				continue
			}
			t.episodes++
			for k, n := range e.Tools {
				t.calls[k] += n
			}
			v := t.tokens[e.Skill]
			t.tokens[e.Skill] = [2]int{v[0] + e.SampledTokens, v[1] + 1}
			if last {
				r.keepSample(e, "training step "+number(float64(s.Step)))
			}
		}
		r.tools = append(r.tools, t)
	}
	if len(r.Splits) > 0 {
		s := r.Splits[0]
		trained := r.samples
		r.samples = nil
		for e, err := range d.EvalEpisodes(s.After.Step, s.Name) {
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return err
			}
			r.keepSample(e, s.Name+" tasks after step "+number(float64(s.After.Step)))
		}
		if len(r.samples) == 0 {
			r.samples = trained
		}
	}
	order := r.Skills()
	slices.SortStableFunc(r.samples, func(a, b sample) int {
		if a.Skill != b.Skill {
			return slices.Index(order, a.Skill) - slices.Index(order, b.Skill)
		}
		return int(b.Score*1000) - int(a.Score*1000)
	})
	return nil
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/eval"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/report"
	"github.com/valence-rl/valence/core/run"
)

// measured is the result of eval.
type measured struct {
	Policy string          `json:"policy"`
	Splits []measuredSplit `json:"splits"`
}

type measuredSplit struct {
	Split    string             `json:"split"`
	Runs     int                `json:"runs"`
	Skills   []measuredSkill    `json:"skills"`
	Mean     figure             `json:"mean"`
	Excluded int                `json:"excluded"`
	Model    *journal.ModelUse  `json:"model,omitempty"`
	Server   *journal.ServerUse `json:"server,omitempty"`
}

type measuredSkill struct {
	Name     string         `json:"name"`
	Tasks    int            `json:"tasks"`
	Avg      figure         `json:"avg"`
	CI       [2]figure      `json:"ci"`
	Min      float64        `json:"min"` // lowest mean of a task
	Max      float64        `json:"max"`
	Ends     map[string]int `json:"ends"`
	Excluded int            `json:"excluded"`
}

// figure is a number that there may be none of: where every episode was lost it is
// NaN, – in a table and null as JSON.
type figure float64

func (f figure) String() string {
	if math.IsNaN(float64(f)) {
		return "–"
	}
	return fmt.Sprintf("%.3f", float64(f))
}

// MarshalJSON writes the number in full.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

func (m measured) table(w io.Writer, p palette) {
	for _, s := range m.Splits {
		fmt.Fprintf(w, "%s on %s, Avg@%d\n", m.Policy, s.Split, s.Runs)
		g := grid{head: []string{"SKILL", "TASKS", "AVG", "95% INTERVAL"}}
		for _, k := range s.Skills {
			g.add(k.Name, fmt.Sprint(k.Tasks), k.Avg.String(), k.CI[0].String()+"–"+k.CI[1].String())
		}
		g.add("mean", "", s.Mean.String(), "")
		g.write(w, p)
		if s.Model != nil {
			fmt.Fprintf(w, "model: %s\n", report.ModelUse(*s.Model))
		}
		if s.Server != nil {
			fmt.Fprintf(w, "server: %s\n", report.ServerUse(*s.Server))
		}
		if s.Excluded > 0 {
			fmt.Fprintf(w, "%d episodes excluded: the infrastructure failed\n", s.Excluded)
		}
	}
}

func newEvalCommand(a *app) *cobra.Command {
	var (
		policyName, dir, save string
		splits                []string
		k, n                  int
		failUnder             float64
	)
	cmd := &cobra.Command{
		Use:   "eval -c FILE",
		Short: "Measure a policy on the evaluation tasks",
		Args:  cobra.NoArgs,
	}
	f := a.configFlags(cmd)
	fl := cmd.Flags()
	fl.Var(&choice{&policyName, run.Policies}, "policy", "who answers: "+strings.Join(run.Policies, ", ")+"; default: [policy] kind")
	fl.StringVar(&dir, "path", "", "policy `folder`, or recordings, in place of the configured ones")
	fl.StringVar(&save, "save", "", "also write the evaluation with its episodes into this run `folder`")
	fl.StringSliceVar(&splits, "split", nil, "splits to measure; default: those of the configuration")
	fl.IntVarP(&k, "runs", "k", 0, "runs of each task; default: [eval] runs")
	fl.IntVarP(&n, "tasks", "n", 0, "tasks a skill; default: [eval] tasks")
	fl.Float64Var(&failUnder, "fail-under", 0, "exit with 4 when the mean over the skills is below")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if n > 0 {
			f.sets = append(f.sets, fmt.Sprintf("eval.tasks=%d", n))
		}
		if len(splits) > 0 {
			f.sets = append(f.sets, fmt.Sprintf("eval.splits=[%s]", strings.Join(quoted(splits), ", ")))
		}
		s, view, err := a.open(cmd.Context(), f, run.Options{})
		if err != nil {
			return err
		}
		defer view.close()
		defer s.Close()
		p, err := s.OpenPolicy(cmd.Context(), policyName, dir)
		if err != nil {
			return err
		}
		m := measured{Policy: p.Name()}
		if len(splits) == 0 {
			splits = s.Splits()
		}
		lost, missed := 0, false
		for _, split := range splits {
			e, episodes, err := s.Measure(cmd.Context(), p, split, 0, cmp.Or(k, s.Config.Eval.Runs))
			if err != nil {
				return err
			}
			if save != "" {
				if err := journal.Dir(filepath.Clean(save)).WriteEval(e, episodes); err != nil {
					return err
				}
			}
			ms := summarise(e)
			lost += ms.Excluded
			missed = missed || ms.misses(failUnder)
			m.Splits = append(m.Splits, ms)
		}
		view.close()
		if err := a.out.result(m); err != nil {
			return err
		}
		switch {
		case missed:
			return statusGate
		case lost > 0:
			return statusLosses
		}
		return nil
	}
	return cmd
}

// misses tells whether the mean is below a gate; where nothing was measured, it is
// below every one. Without a gate, 0, nothing misses.
func (s measuredSplit) misses(gate float64) bool { return gate > 0 && !(float64(s.Mean) >= gate) }

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strconv.Quote(w)
	}
	return out
}

func summarise(e journal.Eval) measuredSplit {
	m := measuredSplit{Split: e.Split, Runs: e.Runs, Model: e.Model, Server: e.Server}
	for _, k := range e.Skills {
		avg := eval.Average(k.Scores, 1)
		s := measuredSkill{Name: k.Name, Tasks: len(k.Tasks), Avg: figure(avg.Avg), CI: [2]figure{figure(avg.CI[0]), figure(avg.CI[1])}, Ends: k.Ends, Excluded: k.Excluded, Min: 1}
		for _, row := range k.Scores {
			if len(row) == 0 {
				continue
			}
			sum := 0.0
			for _, x := range row {
				sum += x
			}
			s.Min, s.Max = min(s.Min, sum/float64(len(row))), max(s.Max, sum/float64(len(row)))
		}
		m.Skills = append(m.Skills, s)
		m.Mean += figure(avg.Avg / float64(len(e.Skills)))
		m.Excluded += k.Excluded
	}
	return m
}

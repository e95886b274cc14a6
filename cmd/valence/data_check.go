package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/valence-rl/valence/core/data/survey"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// surveyed is the result of data check.
type surveyed struct {
	Records int            `json:"records"`
	Bad     int            `json:"bad"` // rows that are no record
	Skills  []survey.Skill `json:"skills"`
}

// shownReasons is how many reasons of one skill a table has.
const shownReasons = 5

func (r surveyed) table(w io.Writer, p palette) {
	g := grid{head: []string{"SKILL", "RECORDS", "TASKS", "WITHOUT", "MISSING"}, left: map[int]bool{4: true}}
	for _, s := range r.Skills {
		first := []string{s.Skill, fmt.Sprint(s.Records), fmt.Sprint(s.Tasks), fmt.Sprint(s.Without)}
		for i, m := range s.Missing {
			if i == shownReasons {
				g.add("", "", "", "", fmt.Sprintf("and %s; -o json has all", counted(len(s.Missing)-i, "further reason")))
				break
			}
			g.add(append(first, fmt.Sprintf("%d: %s (%s)", m.Records, inOneLine(m.Reason), m.Example))...)
			first = []string{"", "", "", ""}
		}
		if len(s.Missing) == 0 {
			g.add(append(first, "")...)
		}
	}
	g.write(w, p)
	fmt.Fprintf(w, "%s", counted(r.Records, "record"))
	if r.Bad > 0 {
		fmt.Fprintf(w, ", %s", p.in(p.yellow, counted(r.Bad, "bad row")))
	}
	fmt.Fprintln(w)
}

// sortedByCount lists the keys, those of most first.
func sortedByCount(m map[string]int) []string {
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(m[b], m[a]) })
	return keys
}

func newDataCheckCommand(a *app) *cobra.Command {
	var format string
	var refs []string
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Say what each skill could build of each record, and what is missing",
		Long: `Say what each skill could build of each record, and what is missing, by asking the
skills' own builders: those of the plugins of --plugin, or of the configuration of -c, or
of the folder plugins. FILE is a records file or anything that data import reads. Nothing
runs in a sandbox and no model is asked. Exit code 3 says that rows were bad or that a
skill can build nothing.`,
		Args: cobra.MinimumNArgs(1),
	}
	find := a.findFlags(cmd)
	formatFlag(cmd, &format)
	cmd.Flags().StringArrayVar(&refs, "plugin", nil, "ask this `plugin`; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		builders, done, err := a.builders(cmd.Context(), find, refs)
		defer done()
		if err != nil {
			return err
		}
		s := survey.New(builders...)
		workers, ctx := errgroup.WithContext(cmd.Context())
		workers.SetLimit(runtime.GOMAXPROCS(0))
		bad, err := a.rowsOf(ctx, "checking", format, args, func(r *sdk.Record) error {
			workers.Go(func() error { return s.Ask(ctx, r) })
			return ctx.Err()
		})
		if werr := workers.Wait(); werr != nil {
			err = werr
		}
		if err != nil {
			return err
		}
		r := surveyed{s.Records(), bad, s.Skills()}
		if err := a.out.result(r); err != nil {
			return err
		}
		if bad > 0 || slices.ContainsFunc(r.Skills, func(k survey.Skill) bool { return k.Tasks == 0 }) {
			return statusLosses
		}
		return nil
	}
	return cmd
}

// builders loads the plugins that build tasks; done closes them, also after an error.
func (a *app) builders(ctx context.Context, find *findFlags, refs []string) (out []survey.Builder, done func(), err error) {
	var open []*host.Plugin
	done = func() {
		for _, p := range open {
			p.Close()
		}
	}
	o, cfg, err := find.options()
	if err != nil {
		return nil, done, err
	}
	var want []wanted
	for _, r := range refs {
		want = append(want, wanted{ref: r})
	}
	if len(want) == 0 && cfg != nil {
		want = wantedBy(cfg)
	}
	if len(want) == 0 {
		folders, err := pluginFolders(nil)
		if err != nil {
			return nil, done, err
		}
		for _, f := range folders {
			want = append(want, wanted{ref: f})
		}
	}
	for _, w := range want {
		o.Transport = w.transport
		m, err := registry.Resolve(ctx, w.ref, o)
		if err != nil {
			return nil, done, err
		}
		if !slices.Contains(m.Manifest.Roles, "build") {
			continue
		}
		p, err := host.Load(ctx, m, host.Options{Grants: m.Manifest.Capabilities, Log: a.logger()})
		if err != nil {
			return nil, done, err
		}
		open = append(open, p)
		out = append(out, survey.Builder{Skill: m.Manifest.Name, Build: func(ctx context.Context, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
			return p.Build(ctx, nil, r)
		}})
	}
	if len(out) == 0 {
		return nil, done, diag.Errorf(diag.KindConfig, "check data", "", "no plugin builds tasks; name one with --plugin")
	}
	return out, done, nil
}

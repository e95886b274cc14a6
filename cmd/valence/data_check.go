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

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/survey"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// surveyed is the result of data check.
type surveyed struct {
	Records int            `json:"records"`
	Bad     int            `json:"bad"` // rows that are no record
	Skills  []survey.Skill `json:"skills"`
	Proof   *proved        `json:"proof,omitempty"`
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
	if r.Proof != nil {
		r.Proof.table(w, p)
	}
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
	var t proving
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Say what each skill could build of each record, and prove the tasks",
		Long: `Say what each skill could build of each record, and what is missing, by asking the
skills' own builders: those of the plugins of --plugin, or of the configuration of -c, or
of the folder plugins. FILE is a records file or anything that data import reads. Nothing
runs in a sandbox and no model is asked.

With --prove the tasks are tried, too: each gives 1 to its reference and 0 to an agent that
did nothing, each time, in real sandboxes, which are those of -c or this machine's.

Exit code 1 says that a proof failed, 3 that rows were bad or that a skill can build
nothing.`,
		Example: `  valence data check train-00000-of-00001.parquet
  valence data check made.jsonl --prove
  valence data check made.jsonl --prove --plugin plugins/editing -n 20 --repeats 1`,
		Args: cobra.MinimumNArgs(1),
	}
	find := a.findFlags(cmd)
	formatFlag(cmd, &format)
	cmd.Flags().StringArrayVar(&refs, "plugin", nil, "ask this `plugin`; may be repeated")
	t.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, cfg, err := find.options()
		if err != nil {
			return err
		}
		builders, done, err := a.builders(cmd.Context(), o, cfg, refs)
		defer done()
		if err != nil {
			return err
		}
		var ask []survey.Builder
		for _, b := range builders {
			ask = append(ask, survey.Builder{Skill: b.plugin.Manifest().Name, Build: func(ctx context.Context, r *sdk.BuildRequest) (*sdk.BuildResponse, error) {
				r.Config = b.settings
				res, err := b.plugin.Build(ctx, nil, r)
				if err == nil && t.on {
					b.keep(res.Tasks, t.tasks)
				}
				return res, err
			}})
		}
		s := survey.New(ask...)
		workers, ctx := errgroup.WithContext(cmd.Context())
		workers.SetLimit(runtime.GOMAXPROCS(0))
		if t.on {
			workers.SetLimit(1) // the first tasks are the file's
		}
		var ground sandbox.Driver
		var tools *run.Tools
		var limits sandbox.Limits
		if t.on {
			if ground, limits, err = a.provingGround(ctx, cfg, t.memory); err != nil {
				return err
			}
			defer ground.Close()
			tools = run.NewTools(ground, a.logger())
		}
		bad, err := a.rowsOf(ctx, "checking", format, args, func(r *sdk.Record) error {
			if t.on {
				if err := tools.PrepareRecord(ctx, r); err != nil {
					return err
				}
			}
			workers.Go(func() error { return s.Ask(ctx, r) })
			return ctx.Err()
		})
		if werr := workers.Wait(); werr != nil {
			err = werr
		}
		if err != nil {
			return err
		}
		r := surveyed{Records: s.Records(), Bad: bad, Skills: s.Skills()}
		if t.on {
			if r.Proof, err = a.prove(cmd.Context(), ground, limits, builders, o, &t); err != nil && r.Proof == nil {
				return err
			}
		}
		if err := a.out.result(r); err != nil {
			return err
		}
		switch {
		case err != nil:
			return err
		case r.Proof != nil && !r.Proof.holds():
			return statusFailed
		case bad > 0 || slices.ContainsFunc(r.Skills, func(k survey.Skill) bool { return k.Tasks == 0 }):
			return statusLosses
		}
		return nil
	}
	return cmd
}

// builder is a plugin that builds tasks, with those that are kept to be proved.
type builder struct {
	plugin   *host.Plugin
	settings []sdk.Pair
	tasks    []sdk.Task
}

// keep keeps tasks, at most that many in all; 0: all.
func (b *builder) keep(tasks []sdk.Task, most int) {
	if room := most - len(b.tasks); most > 0 && len(tasks) > room {
		tasks = tasks[:room]
	}
	b.tasks = append(b.tasks, tasks...)
}

// builders loads the plugins that build tasks; done closes them, also after an error.
func (a *app) builders(ctx context.Context, o registry.Options, cfg *config.Config, refs []string) (out []*builder, done func(), err error) {
	done = func() {
		for _, b := range out {
			b.plugin.Close()
		}
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
			return out, done, err
		}
		if !slices.Contains(m.Manifest.Roles, "build") {
			continue
		}
		b, err := a.load(ctx, m)
		if err != nil {
			return out, done, err
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, done, diag.Errorf(diag.KindConfig, "check data", "", "no plugin builds tasks; name one with --plugin")
	}
	return out, done, nil
}

// load opens a plugin with its own settings.
func (a *app) load(ctx context.Context, m *registry.Module) (*builder, error) {
	settings, err := m.Manifest.Settings(nil)
	if err != nil {
		return nil, err
	}
	p, err := host.Load(ctx, m, host.Options{Grants: m.Manifest.Capabilities, Log: a.logger()})
	if err != nil {
		return nil, err
	}
	return &builder{plugin: p, settings: settings}, nil
}

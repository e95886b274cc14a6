package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/examine"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// examined is the result of plugin test.
type examined struct {
	Plugins []*examine.Report `json:"plugins"`
	Failed  int               `json:"failed"` // checks of all plugins
	verbose bool
}

func (e examined) table(w io.Writer, p palette) {
	for i, r := range e.Plugins {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s %s (%s, abi v%d, %s)\n", p.in(p.bold, "plugin "+r.Name), r.Version, r.Transport, r.ABI, short(r.Digest))
		width := 0
		for _, c := range r.Checks {
			width = max(width, len(c.Check))
		}
		colour := map[sdktest.Status]string{sdktest.OK: p.green, sdktest.Skipped: p.yellow, sdktest.Failed: p.red}
		for _, c := range r.Checks {
			fmt.Fprintf(w, "%s  %-*s  %s\n", p.in(colour[c.Status], fmt.Sprintf("%-4s", c.Status)), width, c.Check, inOneLine(c.String()))
			e.more(w, c)
		}
	}
}

// more shows what does not fit into a check's line: with -v every fault, whole.
func (e examined) more(w io.Writer, c sdktest.Finding) {
	if !e.verbose {
		return
	}
	for _, f := range c.Faults {
		for l := range strings.SplitSeq(strings.TrimRight(f.String(), "\n"), "\n") {
			fmt.Fprintf(w, "      %s\n", l)
		}
	}
}

// inOneLine keeps what an agent or a program wrote from breaking a table.
func inOneLine(s string) string {
	const limit = 300
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// refusal says why a plugin could not be examined.
type refusal struct {
	ref string
	err error
}

// statusFailed is the exit code of a verb that has said in its result what failed.
const statusFailed exitStatus = 1

func newPluginExamineCommand(a *app) *cobra.Command {
	var o examine.Options
	var from, junit string
	var sets []string
	cmd := &cobra.Command{
		Use:   "test [REF…]",
		Short: "Put the conformance suite to plugins, in real sandboxes and without a model",
		Long: `Put the conformance suite to plugins, in real sandboxes and without a model: does the
manifest tell the truth, do builds and tasks repeat, is the hidden part hidden, does the
reference score 1 and nothing 0, do answers that make no sense or deceive earn nothing,
do verdicts repeat, on both transports. A check that cannot be made here is skipped and
says why; it is never ok. Without REF it tests the plugin in the working folder, or all
of plugins. Exit code 1 says that a check failed, 11 that a plugin was refused.`,
		Example: `  valence plugin test
  valence plugin test plugins/repro --judge plugins/judges/rules
  valence plugin test . --records mine.jsonl -n 20 --junit report.xml`,
	}
	f := cmd.Flags()
	transportFlag(cmd, &o.Registry.Transport, "how the plugin is run: wasm or process (default: as its manifest says)")
	f.StringVar(&o.Judge, "judge", "", "the judge of a skill that asks one, a `plugin`")
	f.StringArrayVar(&sets, "set", nil, "a setting of the plugin, `key=value`; may be repeated")
	f.StringVar(&from, "records", "", "build tasks from these records, a `file` of JSON lines, in place of the built-in ones")
	f.IntVarP(&o.Tasks, "tasks", "n", 0, "evaluate at most this `number` of tasks (default: all)")
	f.IntVar(&o.Repeats, "repeats", 3, "evaluate an answer this `number` of times")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "limit of one call to the plugin")
	f.StringVar(&junit, "junit", "", "also write the findings to a `file` in JUnit's XML")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if o.Settings, err = settings(sets); err != nil {
			return err
		}
		if o.Records, err = readRecords(from); err != nil {
			return err
		}
		refs, err := pluginRefs(args)
		if err != nil {
			return err
		}
		if d, err := local.New(local.Options{Dir: run.SandboxDir(), Images: run.Images(config.Sandbox{}, a.logger(), nil)}); err != nil {
			o.NoDriver = err
		} else {
			o.Driver = d
			defer d.Close()
		}
		o.Log = a.logger()
		out := examined{verbose: a.verbose > 0}
		var refused []refusal
		for _, ref := range refs {
			spot := a.spot("testing " + ref + ": ")
			o.Heard = spot.show
			r, err := examine.Plugin(cmd.Context(), ref, o)
			spot.clear()
			if err != nil {
				refused = append(refused, refusal{ref, err})
				if cmd.Context().Err() != nil {
					break
				}
				continue
			}
			out.Plugins = append(out.Plugins, r)
			out.Failed += r.Failed
			for _, c := range r.Checks {
				a.out.event("check", struct {
					Plugin string `json:"plugin"`
					sdktest.Finding
				}{ref, c})
			}
		}
		if junit != "" {
			if err := writeJUnit(junit, out.Plugins, refused); err != nil {
				return err
			}
		}
		if len(out.Plugins) > 0 {
			if err := a.out.result(out); err != nil {
				return err
			}
		}
		var refusals []error
		for _, r := range refused {
			refusals = append(refusals, r.err)
		}
		if err := errors.Join(refusals...); err != nil {
			return err
		}
		if out.Failed > 0 {
			return statusFailed
		}
		return nil
	}
	return cmd
}

// pluginRefs are the references to test: folders are searched for plugins, others
// stay as they are.
func pluginRefs(args []string) ([]string, error) {
	if len(args) == 0 {
		return pluginFolders(nil)
	}
	var out []string
	for _, ref := range args {
		if info, err := os.Stat(ref); err != nil || !info.IsDir() {
			out = append(out, ref)
			continue
		}
		found, err := pluginFolders([]string{ref})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func settings(sets []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range sets {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, &diag.Diagnostic{Kind: diag.KindConfig, Code: "C040", Summary: fmt.Sprintf("--set %q is not key=value", s), Hint: "e.g. --set partial=true"}
		}
		out[k] = v
	}
	return out, nil
}

// readRecords reads all records of a file, or none if there is no name.
func readRecords(name string) ([]sdk.Record, error) {
	if name == "" {
		return nil, nil
	}
	read, err := records.Read(name)
	out := make([]sdk.Record, len(read))
	for i, r := range read {
		out[i] = *r
	}
	return out, err
}

// spot is one line on standard error that says what is under way; it is there on a
// terminal only.
type spot struct {
	w    io.Writer
	head string
}

func (a *app) spot(head string) *spot {
	if a.quiet || a.progress != "auto" || !isTerminal(a.stderr) {
		return &spot{w: io.Discard}
	}
	return &spot{a.stderr, head}
}

func (s *spot) show(text string) { fmt.Fprintf(s.w, "\r\x1b[2K%s%s…", s.head, text) }

func (s *spot) clear() { fmt.Fprint(s.w, "\r\x1b[2K") }

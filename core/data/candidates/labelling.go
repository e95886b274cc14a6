package candidates

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/data/trial"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// labelling is the work on one record.
type labelling struct {
	Options
	lab     *trial.Lab
	record  *sdk.Record
	found   []sdk.Candidate
	refused map[string]int
}

// proposal is a patch that nobody has labelled yet.
type proposal struct {
	policy  string
	changes []sdk.Change
	solved  bool
	seen    string // digest of what the files hold
}

func (l *labelling) run(ctx context.Context, attempts []Attempt) error {
	r := l.record
	refuse := func(why string) error { l.refused[why] += len(attempts); return nil }
	if r.TestCommand == "" || len(r.FailToPass) == 0 {
		return refuse("the record has no tests that tell a solution")
	}
	tree, why, err := l.tree(ctx, attempts)
	switch {
	case err != nil:
		return err
	case why != "":
		return refuse(why)
	}
	files := map[string]sdk.File{}
	for _, f := range tree {
		files[f.Path] = f
	}
	was := func(p string) ([]byte, bool) { f, ok := files[p]; return f.Data, ok }
	seen := map[string]bool{}
	golden := -1
	for i, c := range r.Candidates {
		if changes, err := patch.Changes(tree, c.Patch); err == nil {
			seen[digest(changes)] = true
		}
		if c.Origin == gold {
			golden = i
		}
	}
	mend, err := patch.Changes(tree, r.Patch)
	if err != nil {
		return refuse("the gold patch does not apply")
	}
	passes, sure, err := l.label(ctx, mend)
	switch {
	case recordsOwn(err):
		return refuse("the record's tests cannot be run")
	case err != nil:
		return err
	case !passes || !sure:
		return refuse("the record's tests do not pass with the gold patch")
	}
	seen[digest(mend)] = true
	var list []proposal
	for _, a := range attempts {
		p, why := proposed(a, files)
		if why == "" && seen[p.seen] {
			why = "another has the same"
		}
		if why != "" {
			l.refused[why]++
			continue
		}
		seen[p.seen] = true
		list = append(list, p)
	}
	room := map[bool]int{true: l.Most, false: l.Most}
	for _, p := range inTurns(list) {
		if room[p.solved] == 0 {
			l.refused["the record has enough of the label"]++
			continue
		}
		passes, sure, err := l.label(ctx, p.changes)
		switch {
		case err != nil:
			return err
		case !sure:
			l.refused["the tests do not agree with themselves"]++
			continue
		case room[passes] == 0:
			l.refused["the record has enough of the label"]++
			continue
		}
		room[passes]--
		l.found = append(l.found, sdk.Candidate{Patch: patch.Diff(was, p.changes), Correct: passes, Origin: p.policy})
	}
	if golden < 0 && len(l.found) > 0 {
		l.found = append([]sdk.Candidate{{Patch: r.Patch, Correct: true, Origin: gold}}, l.found...)
	}
	return nil
}

// tree gives the files of the record's workspace, or, where it lists none, those that
// some patch or attempt touches, out of a sandbox. Otherwise why says what is in the way.
func (l *labelling) tree(ctx context.Context, attempts []Attempt) (tree []sdk.File, why string, err error) {
	w := l.record.Workspace
	if len(w.Files) > 0 {
		if tree, err = patch.Tree(w.Files, w.Patches...); err != nil {
			return nil, "the record's workspace cannot be made", nil
		}
		return tree, "", nil
	}
	var paths []string
	for _, c := range append([]sdk.Candidate{{Patch: l.record.Patch}}, l.record.Candidates...) {
		touched, err := patch.Inspect(c.Patch)
		if err != nil {
			return nil, "a patch of the record cannot be read", nil
		}
		for _, t := range touched {
			paths = append(paths, t.Path, t.Renamed)
		}
	}
	for _, a := range attempts {
		for _, c := range a.Changes {
			paths = append(paths, c.Path)
		}
	}
	slices.Sort(paths)
	paths = slices.DeleteFunc(slices.Compact(paths), func(p string) bool { return p == "" })
	q := &sdk.RunRequest{Workspace: w}
	for _, p := range paths {
		p = "'" + strings.ReplaceAll(p, "'", `'\''`) + "'"
		q.Commands = append(q.Commands, sdk.Command{Shell: "[ ! -f " + p + " ] || { [ -x " + p + " ] && echo x || echo -; base64 " + p + "; }"})
	}
	answer, err := l.lab.Run(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i, log := range answer.Logs {
		if log.Output == "" && log.ExitCode == 0 {
			continue // not there
		}
		bits, text, _ := strings.Cut(log.Output, "\n")
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil || log.ExitCode != 0 || log.Truncated || log.TimedOut {
			return nil, "a file cannot be read out of the record's image", nil
		}
		tree = append(tree, sdk.File{Path: paths[i], Data: data, Exec: bits == "x"})
	}
	return tree, "", nil
}

// recordsOwn says whether an error is the record's and not of the host: a test command
// that cannot be started, a patch that does not apply.
func recordsOwn(err error) bool {
	k := diag.KindOf(err)
	return err != nil && (k == diag.KindUnknown || k == diag.KindData)
}

// label runs the tests on changes; sure says whether they said the same each time.
func (l *labelling) label(ctx context.Context, changes []sdk.Change) (passes, sure bool, err error) {
	for n := range l.Repeats {
		v, err := l.lab.Verify(ctx, l.record, changes, n)
		if err != nil {
			return false, false, err
		}
		if n > 0 && v.Solved != passes {
			return false, false, nil
		}
		passes = v.Solved
	}
	return passes, true, nil
}

// proposed makes a proposal of an attempt, or says why it is none.
func proposed(a Attempt, files map[string]sdk.File) (p proposal, why string) {
	p = proposal{policy: a.Policy, solved: a.Solved}
	for _, c := range a.Changes {
		f, there := files[c.Path]
		switch {
		case c.Symlink != "":
			return p, "it makes a symbolic link"
		case !c.Deleted && !utf8.Valid(c.Data):
			return p, "a file of it is not Unicode"
		case c.Deleted && !there, !c.Deleted && there && string(c.Data) == string(f.Data):
			continue
		}
		if there {
			c.Exec = f.Exec
		}
		p.changes = append(p.changes, c)
	}
	if len(p.changes) == 0 {
		return p, "it changes nothing"
	}
	if p.seen = digest(p.changes); p.seen == digest(unchanged(p.changes, files)) {
		return p, "it changes nothing but blanks at line ends"
	}
	return p, ""
}

func unchanged(changes []sdk.Change, files map[string]sdk.File) []sdk.Change {
	out := slices.Clone(changes)
	for i := range out {
		f, there := files[out[i].Path]
		out[i].Data, out[i].Deleted = f.Data, !there
	}
	return out
}

// digest names what files hold after changes, without blanks at the ends of lines.
func digest(changes []sdk.Change) string {
	sorted := slices.Clone(changes)
	slices.SortFunc(sorted, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) })
	h := sha256.New()
	for _, c := range sorted {
		fmt.Fprintf(h, "%q %t\n", c.Path, c.Deleted)
		for line := range strings.Lines(string(c.Data)) {
			fmt.Fprintf(h, "%q\n", strings.TrimRight(line, " \t\r\n"))
		}
	}
	return string(h.Sum(nil))
}

// inTurns has policies take turns, each with its patches in their order.
func inTurns(list []proposal) []proposal {
	var policies []string
	by := map[string][]proposal{}
	for _, p := range list {
		if by[p.policy] == nil {
			policies = append(policies, p.policy)
		}
		by[p.policy] = append(by[p.policy], p)
	}
	var out []proposal
	for len(out) < len(list) {
		for _, name := range policies {
			if mine := by[name]; len(mine) > 0 {
				out, by[name] = append(out, mine[0]), mine[1:]
			}
		}
	}
	return out
}

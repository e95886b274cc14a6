package run

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/decontaminate"
	"github.com/valence-rl/valence/core/data/formats"
	"github.com/valence-rl/valence/core/data/suites"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// errEnough ends the reading of a file.
var errEnough = errors.New("enough")

// readFile reads the records of a source's file, as far as they belong to its split.
// Rows that are bad are counted and said; a file that gives no record is an error.
func (s *Setup) readFile(ctx context.Context, src *config.Source) ([]record, error) {
	paths, err := formats.Sources([]string{src.Path})
	if err != nil {
		return nil, err
	}
	seed := src.SeedOr(s.Config.Run.Seed)
	var out []record
	seen, repeated, bad := map[string]bool{}, 0, 0
	var first *formats.Bad
	others := 0
	err = formats.Import(ctx, paths, formats.Options{}, func(i formats.Item) error {
		switch {
		case i.Bad != nil:
			if bad++; first == nil {
				first = i.Bad
			}
		case seen[i.Record.ID]:
			repeated++
		case src.Holdout > 0 && heldOut(i.Record, src.Holdout, seed) != (src.Split == "eval"):
			others++
		default:
			seen[i.Record.ID] = true
			out = append(out, record{i.Record, seed})
			if len(out) == src.Count {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, diag.Wrap(diag.KindData, "read source", src.Path, err)
	}
	if bad > 0 {
		s.log.Warn("rows that are no records", "source", src.Path, "rows", bad, "first", first.Error())
	}
	if repeated > 0 {
		s.log.Warn("records whose ID an earlier one has", "source", src.Path, "records", repeated)
	}
	switch {
	case len(out) > 0:
		return out, nil
	case others > 0:
		return nil, diag.Errorf(diag.KindData, "read source", src.Path, "the split %q has no record: holdout = %g puts all %d into the other one; repositories are held out as a whole", src.Split, src.Holdout, others)
	case first != nil:
		return nil, diag.Wrap(diag.KindData, "read source", src.Path, first)
	}
	return nil, diag.Errorf(diag.KindData, "read source", src.Path, "there is no record")
}

// heldOut draws by a record's repository, so that both parts keep their repositories
// whole, whatever else a file has; one without a repository goes by its ID.
func heldOut(r *sdk.Record, share float64, seed uint64) bool {
	by := decontaminate.Repository(r.Repo)
	if by == "" {
		by = r.ID
	}
	return float64(seedOf(seed, "holdout", by)>>11)/(1<<53) < share
}

// decontaminate drops from what is trained on all that is measured (ALGORITHMS 8). The
// pocket world is left out on both sides: it is generated, and its splits share nothing.
func (s *Setup) decontaminate(ctx context.Context, drawn [][]record) error {
	c := s.Config
	from := func(src *config.Source) bool { return src.Kind != "pocket" }
	if c.Decontaminate.Off {
		s.cleaned = decontaminate.Report{Off: true, Suites: []string{}, Reasons: []decontaminate.Dropped{}, Namesakes: []decontaminate.Namesake{}}
		s.observe(Event{Kind: Warned, Text: "training data is not compared with what is measured, as [decontaminate] off asks: scores on public suites and on eval sources prove nothing"})
		return nil
	}
	against := decontaminate.New()
	for _, suite := range suites.All() {
		if c.Decontaminate.Suites == nil || slices.Contains(c.Decontaminate.Suites, suite.Name) {
			against.AddSuite(suite)
		}
	}
	for _, path := range c.Decontaminate.Files {
		if err := addFile(ctx, against, path); err != nil {
			return err
		}
	}
	for i := range c.Sources {
		if src := &c.Sources[i]; from(src) && !trainedOn(src) {
			for _, r := range drawn[i] {
				against.AddRecord(filepath.Base(src.Path), r.Record)
			}
		}
	}
	sieve := decontaminate.NewSieve(against)
	for i := range c.Sources {
		if src := &c.Sources[i]; from(src) && trainedOn(src) {
			drawn[i] = slices.DeleteFunc(drawn[i], func(r record) bool { return !sieve.Keep(r.Record) })
		}
	}
	s.cleaned = sieve.Report()
	if s.cleaned.Records > 0 {
		s.observe(Event{Kind: Cleaned, Cleaned: &s.cleaned})
	}
	return nil
}

// addFile adds what a file of [decontaminate] files has. A row that cannot be read could
// hide what is measured, so it is an error.
func addFile(ctx context.Context, against *decontaminate.Against, path string) error {
	if filepath.Ext(path) == ".txt" {
		return decontaminate.AddList(against, path)
	}
	paths, err := formats.Sources([]string{path})
	if err != nil {
		return err
	}
	err = formats.Import(ctx, paths, formats.Options{}, func(i formats.Item) error {
		if i.Bad != nil {
			return i.Bad
		}
		against.AddRecord(filepath.Base(path), i.Record)
		return nil
	})
	return diag.Wrap(diag.KindData, "read what is measured", path, err)
}

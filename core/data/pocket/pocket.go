// Package pocket makes the quickstart's data: small Python packages with
// docstrings and unittest tests, broken by one mutation or two, with issue texts.
// The records have the shape of real ones and go through the production skills;
// only their size is made for a policy of a million parameters.
//
// Every value that a record claims (what a function returns, what its mutant
// returns or raises) was found by running the code with a real Python.
//
// The splits are honest by construction:
//
//   - "train" never holds a function instance (family, name, parameter names and
//     constants) of "eval", and so no repository of it; nor a mutation that breaks
//     a function there; nor an issue phrasing.
//   - "eval" has the families of "train" with instances, breaking mutations and
//     phrasings of its own. What a family is about ("the first items") is worded
//     alike in both: a policy this small knows no synonyms it was not taught.
//   - "unseen" breaks functions of families that occur in no other split.
package pocket

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// The splits and shapes that [Options] accepts.
const (
	SplitTrain  = "train"
	SplitEval   = "eval"
	SplitUnseen = "unseen"

	// ShapeRepository is 3 or 4 modules of 2 or 3 functions; one of them is
	// broken, or (30%) two of different modules. It suits localization.
	ShapeRepository = "repository"
	// ShapeModule is one module of 1 or 2 functions, one of which is broken. The
	// issue or the docstring's examples show the bug, so that each skill can be
	// done from what the agent sees.
	ShapeModule = "module"
)

// Options says which records to make. There are no defaults.
type Options struct {
	Seed  uint64
	Count int    // ≥ 0; a larger Count extends the list of a smaller one
	Split string // "train", "eval" or "unseen"
	Shape string // "repository" or "module"
}

// Runner runs a Python 3 program from its source, with stdin as input, and gives
// its stdout; an exit status other than 0 is an error. The program needs nothing
// but the standard library and writes no file. [Generate] sends at most 4 MiB a
// call, for about a second's work, and may call from several goroutines at once.
type Runner func(ctx context.Context, script string, stdin []byte) (stdout []byte, err error)

// Item is a record with what its maker knows beyond the record.
type Item struct {
	Record sdk.Record
	Bugs   []Bug // in the order in which the issue names them; the first is Record.Targets[0]
}

// Bug is one broken function.
type Bug struct {
	Path     string // "shop.py"
	Name     string
	Family   string
	Phrasing string // how the issue tells it: "full", "want", "got", "name" or "beh"
	Before   string // the broken line, without its line break
	After    string // the line as it should be
	Case     Case   // the call that the issue shows if Phrasing is "full", "want" or "got"
	Got      string // what Case.Call gives while broken; an exception's name if Raises
	Raises   bool
	Examples []Case // the two of the docstring
	Golden   []Case // calls of the golden tests, Examples and Case among them
}

// Case is a call and the Python literal that it should give.
type Case struct {
	Call string // "clamp(3, 0, 2)"
	Want string // "2"
}

// window is the number of records that are made together, to keep memory bounded
// and batches large.
const window = 2048

// maxAttempts bounds the redraws of one record; a handful occur in practice.
const maxAttempts = 1000

// Generate makes the records. They depend on o alone, not on how run batches or
// how fast it is; ids are pocket-<split>-<shape>-<seed>-<n>, n from 0. No two are
// equal but for the id. It blocks until run has answered for all of them, about
// 1 ms of CPU each.
//
// Errors are diag.Errors: KindConfig for options, KindData for answers of run
// that make no sense, and run's own kind, KindSandbox if it has none.
func Generate(ctx context.Context, run Runner, o Options) ([]*Item, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := newWorld(o)
	if err != nil {
		return nil, err
	}
	m := &meter{run: run, kept: map[string]*measured{}}
	seen := map[[sha256.Size]byte]bool{}
	items := make([]*Item, 0, o.Count)
	for len(items) < o.Count {
		next, err := w.fill(ctx, m, seen, len(items), min(o.Count-len(items), window))
		if err != nil {
			return nil, err
		}
		items = append(items, next...)
	}
	return items, nil
}

func (o Options) check() error {
	bad := func(key, format string, args ...any) error {
		return diag.Errorf(diag.KindConfig, "generate pocket records", key, format, args...)
	}
	switch {
	case o.Count < 0:
		return bad("count", "%d is negative", o.Count)
	case !slices.Contains([]string{SplitTrain, SplitEval, SplitUnseen}, o.Split):
		return bad("split", "%q is none of train, eval, unseen", o.Split)
	case !slices.Contains([]string{ShapeRepository, ShapeModule}, o.Shape):
		return bad("shape", "%q is neither repository nor module", o.Shape)
	}
	return nil
}

// fill makes count records from number first on. Record n is the first of its
// drafts that can be finished and equals no earlier record, so it depends on the
// records before it alone. Drafts are measured together in rounds: a round
// assumes that all records before a redrawn one stay as they are, which the next
// round checks.
func (w *world) fill(ctx context.Context, m *meter, seen map[[sha256.Size]byte]bool, first, count int) ([]*Item, error) {
	type attempt struct {
		item *Item // nil: cannot be finished
		sum  [sha256.Size]byte
	}
	tried := make([][]attempt, count)
	for {
		var drafts []*draft
		var owner []int
		items := make([]*Item, 0, count)
		own := map[[sha256.Size]byte]bool{}
		for i := range tried {
			k := slices.IndexFunc(tried[i], func(a attempt) bool {
				return a.item != nil && !seen[a.sum] && !own[a.sum]
			})
			if k >= 0 {
				own[tried[i][k].sum] = true
				items = append(items, tried[i][k].item)
				continue
			}
			if len(tried[i]) >= maxAttempts {
				return nil, diag.Errorf(diag.KindData, "generate pocket records", w.id(first+i),
					"%d drafts gave no new record: the world is exhausted", maxAttempts)
			}
			drafts = append(drafts, w.draw(first+i, len(tried[i])))
			owner = append(owner, i)
		}
		if len(drafts) == 0 {
			for sum := range own {
				seen[sum] = true
			}
			return items, nil
		}
		if err := m.measure(ctx, drafts); err != nil {
			return nil, err
		}
		for j, d := range drafts {
			var a attempt
			if a.item = w.finish(d); a.item != nil {
				a.sum = fingerprint(&a.item.Record)
			}
			tried[owner[j]] = append(tried[owner[j]], a)
		}
	}
}

func (w *world) id(n int) string {
	return fmt.Sprintf("pocket-%s-%s-%d-%d", w.Split, w.Shape, w.Seed, n)
}

// fingerprint identifies what an agent could tell a record by.
func fingerprint(r *sdk.Record) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(r.Problem))
	for _, f := range r.Workspace.Files {
		fmt.Fprintf(h, "\x00%s\x00%s", f.Path, f.Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

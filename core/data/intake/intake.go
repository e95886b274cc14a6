// Package intake turns data sets into a records file, as `valence data import` does: rows
// from formats, a file by records, and a summary. An intake that was killed goes on
// where its last checkpoint was when it is asked for again.
package intake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/valence-rl/valence/core/data/formats"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/diag"
)

// Options say what is imported. There are no defaults but where one is named.
type Options struct {
	Sources []string // files and folders
	Format  string   // "": told by the columns
	Out     string   // the records file
	Replace bool     // a file of that name is replaced; else it is an error of kind config
	Limit   int      // longest row, in bytes; 0: 64 MiB
	// Each is told of every row, once the row has been dealt with; nil: nobody. It is
	// called from one goroutine.
	Each func(Progress)
	// Every is the time between checkpoints; 0: a second.
	Every time.Duration
}

// Progress is where an intake stands.
type Progress struct {
	Summary *Summary
	Bad     *formats.Bad // the row's, if it is bad
	Bytes   int64        // that have been read
	Total   int64        // of all sources
}

// Summary counts what became of rows.
type Summary struct {
	Out      string         `json:"out"`
	Rows     int64          `json:"rows"`
	Records  int64          `json:"records"`
	Repeated int64          `json:"repeated"` // rows whose ID an earlier one had
	Bad      int64          `json:"bad"`
	Reasons  map[string]int `json:"reasons"` // bad rows by the field that is wrong
	Lost     int            `json:"lost"`    // files that could not be read to their end
	Formats  map[string]int `json:"formats"` // records by format
	Resumed  int64          `json:"resumed"` // rows that an earlier process had done
	Seconds  float64        `json:"seconds"` // of this process
}

// state is what a checkpoint keeps.
type state struct {
	Of      string           `json:"of"` // fingerprint of sources and format
	At      formats.Position `json:"at"`
	Summary Summary          `json:"summary"`
}

const op = "import"

// Run imports, and gives the summary also with an error. Bad rows are none. Errors are
// of kind data, those of options of kind config.
func Run(ctx context.Context, o Options) (*Summary, error) {
	started := time.Now()
	s := &Summary{Out: o.Out, Reasons: map[string]int{}, Formats: map[string]int{}}
	sources, err := formats.Sources(o.Sources)
	if err != nil {
		return s, err
	}
	if _, err := os.Stat(o.Out); err == nil && !o.Replace {
		return s, &diag.Diagnostic{Kind: diag.KindConfig, Code: "D010", Summary: fmt.Sprintf("there is a file %q already", o.Out),
			Hint: "write another one with --out FILE, or replace it with --force"}
	}
	of, err := fingerprint(sources, o.Format)
	if err != nil {
		return s, err
	}
	w, at, err := begin(o.Out, of, s)
	if err != nil {
		return s, err
	}
	defer w.Close()
	t := &intake{o: o, of: of, out: w, summary: s, at: at, saved: started}
	for _, src := range sources {
		t.total += src.Size
	}
	err = formats.Import(ctx, sources, formats.Options{Format: o.Format, After: at, Limit: o.Limit}, t.take)
	s.Seconds = time.Since(started).Seconds()
	if err != nil {
		// What is done is kept for the next time.
		return s, errors.Join(err, t.save())
	}
	if w.Records() == 0 {
		return s, diag.Wrap(diag.KindData, op, "", errors.Join(fmt.Errorf("none of %d rows became a record", s.Rows), records.Discard(o.Out)))
	}
	return s, w.Finish()
}

// begin opens the records file where an earlier process left it, or anew.
func begin(out, of string, s *Summary) (*records.Writer, formats.Position, error) {
	w, kept, err := records.Create(out)
	if err != nil || kept == nil {
		return w, formats.Position{}, err
	}
	var st state
	if err := json.Unmarshal(kept, &st); err == nil && st.Of == of {
		*s = st.Summary
		s.Out, s.Resumed = out, s.Rows
		return w, st.At, nil
	}
	// It is of other sources, or of the same ones before they changed.
	w.Close()
	if err := records.Discard(out); err != nil {
		return nil, formats.Position{}, err
	}
	w, _, err = records.Create(out)
	return w, formats.Position{}, err
}

// fingerprint changes with the sources' names, sizes and times, and with the format.
func fingerprint(sources []formats.Source, format string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", format)
	for _, s := range sources {
		info, err := os.Stat(s.Path)
		if err != nil {
			return "", diag.Wrap(diag.KindData, op, s.Path, err)
		}
		fmt.Fprintf(h, "%q %d %d\n", s.Path, s.Size, info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

type intake struct {
	o       Options
	of      string
	out     *records.Writer
	summary *Summary
	at      formats.Position
	total   int64
	saved   time.Time
}

// take deals with one row.
func (t *intake) take(i formats.Item) error {
	s := t.summary
	s.Rows++
	if i.Bad == nil {
		err := t.out.Append(i.Record)
		switch {
		case errors.Is(err, records.ErrRepeated):
			s.Repeated++
		case err != nil:
			return err
		default:
			s.Records++
			s.Formats[cmp.Or(i.Record.Source, formats.Records)]++
		}
	} else {
		s.Bad++
		s.Reasons[i.Bad.Reason()]++
		if i.Bad.Lost {
			s.Lost++
		}
	}
	t.at = i.At
	if t.o.Each != nil {
		t.o.Each(Progress{Summary: s, Bad: i.Bad, Bytes: i.Bytes, Total: t.total})
	}
	if now := time.Now(); now.Sub(t.saved) >= cmp.Or(t.o.Every, time.Second) {
		t.saved = now
		return t.save()
	}
	return nil
}

func (t *intake) save() error { return t.out.Checkpoint(state{t.of, t.at, *t.summary}) }

// Why lists the reasons of bad rows, the most frequent first.
func (s *Summary) Why() []string {
	keys := slices.Sorted(maps.Keys(s.Reasons))
	slices.SortStableFunc(keys, func(a, b string) int { return s.Reasons[b] - s.Reasons[a] })
	return keys
}

package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Options say how sources are read.
type Options struct {
	Format string   // one of [Names]; "": told by the columns of each file's first row
	After  Position // where an earlier import stopped; the zero Position: the beginning
	Limit  int      // longest row, in bytes; 0: [rows.DefaultLimit]
}

// Position is a place in a list of sources.
type Position struct {
	Source int   `json:"source"` // index of the source under way
	Row    int64 `json:"row"`    // rows of it that are done
}

// Item is one row: a record, or what is wrong with it.
type Item struct {
	Record *sdk.Record
	Bad    *Bad
	At     Position // after the row
	Bytes  int64    // of all sources that have been read, as they lie on the disk
}

// Bad is a row that became no record.
type Bad struct {
	File  string `json:"file"`
	Unit  string `json:"unit,omitempty"` // what Number counts: line or row; "": the file as a whole
	Row   int64  `json:"row,omitempty"`
	ID    string `json:"id,omitempty"`
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
	Lost  bool   `json:"lost,omitempty"` // the rest of the file cannot be read either
}

func (b *Bad) Error() string {
	s := b.File
	if b.Row > 0 {
		s += fmt.Sprintf(", %s %d", b.Unit, b.Row)
	}
	if b.ID != "" {
		s += " (" + b.ID + ")"
	}
	if b.Field != "" {
		s += ": " + b.Field
	}
	return s + ": " + b.Text
}

// Reason is what is wrong in so few words that like ones can be counted: the field, or
// "row" for one that cannot be read at all.
func (b *Bad) Reason() string {
	switch {
	case b.Field != "":
		return b.Field
	case b.Row > 0:
		return "row"
	}
	return "file"
}

// flight is about how many bytes of rows are under way at once.
const flight = 64 << 20

// batch is how many rows one worker takes at once.
const batch = 16

// Import reads sources one after the other and calls each with every row in order, from
// one goroutine. Rows are made into records by as many workers as there are cores; at
// most about 128 MiB of rows are under way, however large the sources are. A bad row, or
// a file that is no data, is an Item and ends nothing. The error is that of each, of
// ctx, or of kind config for a format that there is not.
func Import(ctx context.Context, sources []Source, o Options, each func(Item) error) error {
	var format *Format
	if o.Format != "" && o.Format != Harbor {
		f, err := named(o.Format)
		if err != nil {
			return diag.Wrap(diag.KindConfig, "import", "--format", err)
		}
		format = f
	}
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan *work, 2*runtime.GOMAXPROCS(0)+2) // in order
	todo := make(chan *work, cap(queue))
	room := semaphore.NewWeighted(flight)
	g.Go(func() error {
		defer close(queue)
		defer close(todo)
		p := &producer{ctx: ctx, queue: queue, todo: todo, room: room, limit: o.Limit}
		for i, s := range sources {
			var err error
			if i < o.After.Source {
				p.before += s.Size
				continue
			}
			skip := int64(0)
			if i == o.After.Source {
				skip = o.After.Row
			}
			if s.Folder {
				err = p.folder(i, s, skip)
			} else {
				err = p.file(i, s, format, skip)
			}
			if err != nil {
				return err
			}
			p.before += s.Size
		}
		return p.send()
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for w := range todo {
				w.run()
				close(w.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for w := range queue {
			select {
			case <-w.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			for _, item := range w.items {
				if err := each(item); err != nil {
					return err
				}
			}
			room.Release(w.weight)
		}
		return nil
	})
	return g.Wait()
}

// work is a batch of rows of one file.
type work struct {
	file   string
	unit   string
	format *Format
	tree   *records.Decoder // of a records file
	raw    []rows.Raw
	items  []Item // one a row; Record and Bad are filled in by run where Bad is nil
	weight int64
	done   chan struct{}
}

// producer reads sources into batches.
type producer struct {
	ctx    context.Context
	queue  chan<- *work
	todo   chan<- *work
	room   *semaphore.Weighted
	limit  int
	before int64 // bytes of the sources that are done
	next   *work
}

// send hands the batch under way to the workers.
func (p *producer) send() error {
	w := p.next
	if p.next = nil; w == nil {
		return nil
	}
	for _, r := range w.raw {
		w.weight += r.Size()
	}
	w.weight = min(w.weight, flight)
	if err := p.room.Acquire(p.ctx, w.weight); err != nil {
		return err
	}
	for _, to := range []chan<- *work{p.queue, p.todo} {
		select {
		case to <- w:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return nil
}

// add puts a row, or what is wrong with it, into the batch under way.
func (p *producer) add(like work, raw rows.Raw, item Item) error {
	if p.next == nil {
		p.next = &like
		p.next.done = make(chan struct{})
	}
	p.next.raw, p.next.items = append(p.next.raw, raw), append(p.next.items, item)
	if len(p.next.items) == batch || raw.Size() > flight/batch {
		return p.send()
	}
	return nil
}

func (p *producer) folder(i int, s Source, skip int64) error {
	if skip > 0 {
		return nil
	}
	if err := p.send(); err != nil {
		return err
	}
	return p.add(work{file: s.Path}, rows.Raw{}, Item{At: Position{i, 1}, Bytes: p.before})
}

func (p *producer) file(i int, s Source, format *Format, skip int64) error {
	if err := p.send(); err != nil {
		return err
	}
	lost := func(err error) error {
		return p.add(work{file: s.Path}, rows.Raw{}, Item{Bad: &Bad{File: s.Path, Text: cause(err), Lost: true}, At: Position{Source: i + 1}, Bytes: p.before + s.Size})
	}
	r, err := rows.Open(s.Path, p.limit)
	if err != nil {
		if skip > 0 {
			return nil // it was said before
		}
		return lost(err)
	}
	defer r.Close()
	like := work{file: s.Path, unit: r.Unit(), format: format}
	if format == nil && skip > 0 {
		if like.format, err = first(s.Path, p.limit); err != nil {
			return nil
		}
	}
	if err := r.Skip(skip); err != nil {
		return lost(err)
	}
	if like.format != nil && like.format.Name == Records {
		like.tree = records.NewDecoder(s.Path)
	}
	for {
		raw, err := r.Next()
		var bad *rows.Bad
		item := Item{At: Position{i, raw.Number}}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			item.Bad = &Bad{File: s.Path, Unit: like.unit, Row: bad.Number, Field: bad.Field, Text: bad.Text}
			item.At.Row = bad.Number
		case err != nil:
			if err := p.send(); err != nil {
				return err
			}
			return lost(err)
		case like.format == nil:
			fields, err := raw.Fields()
			if err != nil {
				break // the worker says so
			}
			f, err := detect(fields)
			if err != nil {
				if err := p.send(); err != nil {
					return err
				}
				return lost(err)
			}
			if err := p.send(); err != nil {
				return err
			}
			if like.format = f; f.Name == Records {
				like.tree = records.NewDecoder(s.Path)
			}
		}
		done, _ := r.Progress()
		item.Bytes = p.before + done
		if err := p.add(like, raw, item); err != nil {
			return err
		}
	}
}

// cause is an error without what was being done and to what, which its row says.
func cause(err error) string {
	var e *diag.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// first finds the format of a file by its first row that can be read.
func first(path string, limit int) (*Format, error) {
	r, err := rows.Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		raw, err := r.Next()
		var bad *rows.Bad
		if errors.As(err, &bad) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if fields, err := raw.Fields(); err == nil {
			return detect(fields)
		}
	}
}

// run makes records of the batch's rows.
func (w *work) run() {
	for i := range w.items {
		if w.items[i].Bad == nil {
			w.one(w.raw[i], &w.items[i])
		}
	}
	w.raw = nil
}

func (w *work) one(raw rows.Raw, item *Item) {
	bad := func(id string, f *fault) {
		item.Bad = &Bad{File: w.file, Unit: w.unit, Row: raw.Number, ID: id, Field: f.field, Text: f.text}
	}
	if w.unit == "" {
		seen := diffs{}
		rec, f := harbor(w.file, seen)
		if f == nil {
			f = sound(rec, names{"task.name", "patch", "tests", "patch"}, seen)
		}
		if f != nil {
			bad("", f)
			return
		}
		item.Record = rec
		return
	}
	fields, err := raw.Fields()
	if err != nil {
		var s *rows.SyntaxError
		f := &fault{"", err.Error()}
		if errors.As(err, &s) {
			f = &fault{s.Field, fmt.Sprintf("byte %d: %s", s.Offset, s.Text)}
		}
		bad("", f)
		return
	}
	var rec *sdk.Record
	seen := diffs{}
	in := names{"instance_id", "patch", "test_patch", "patch"}
	if w.format.Name == Records {
		in = names{"ID", "Patch", "TestPatch", "Workspace.Patches"}
		if rec, err = w.tree.Decode(fields); err != nil {
			field, text := records.Explain(err)
			bad("", &fault{field, text})
			return
		}
		if rec.ID == "" {
			bad("", &fault{"ID", "missing"})
			return
		}
	} else {
		r := newRow(fields)
		rec, seen = w.format.record(r), r.diffs
		if r.bad != nil {
			bad(rec.ID, r.bad)
			return
		}
	}
	if f := sound(rec, in, seen); f != nil {
		bad(rec.ID, f)
		return
	}
	item.Record = rec
}

// Package rows reads the files that data sets come in: JSON lines, one JSON list, or
// Parquet, the first two also compressed with gzip or zstd. What a file is is told by
// its bytes, not by its name. Rows come one after the other; memory holds a few of
// them, and of Parquet the pages of one row group.
//
// A row that cannot be read is a [*Bad] and the next one is read as if nothing had
// been. Nothing is repaired: text that is no Unicode is refused by name.
package rows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/valence-rl/valence/core/diag"
)

// DefaultLimit is the longest row that is read, in bytes: 64 MiB.
const DefaultLimit = 64 << 20

// Raw is one row that has not been parsed.
type Raw struct {
	// Number is the row's place in its file, from 1: the line of JSON lines, else
	// the row.
	Number int64
	data   []byte
	fields []Field // of Parquet
}

// Size is about what the row takes in memory, in bytes.
func (r Raw) Size() int64 {
	n := int64(len(r.data))
	for _, f := range r.fields {
		n += int64(len(f.Value.Text) + len(f.Value.JSON))
	}
	return n
}

// JSON is the row as it stands in its file; nil of Parquet.
func (r Raw) JSON() []byte { return r.data }

// Fields are the row's fields in their order. The error is a [*SyntaxError].
func (r Raw) Fields() ([]Field, error) {
	if r.data == nil {
		return r.fields, nil
	}
	return Object(r.data)
}

// Bad is a row that cannot be read.
type Bad struct {
	Number int64
	Field  string // "" if it is not known
	Text   string
}

func (b *Bad) Error() string {
	if b.Field != "" {
		return fmt.Sprintf("row %d: %s: %s", b.Number, b.Field, b.Text)
	}
	return fmt.Sprintf("row %d: %s", b.Number, b.Text)
}

// Reader reads the rows of one file. It is not safe for concurrent use.
type Reader struct {
	name   string
	file   *file
	limit  int
	number int64
	table  *table
	list   *json.Decoder
	over   bool
}

// Open opens a file. Errors are of kind data; a file that is none of those that can
// be read is named for what it is: a Git LFS pointer, a web page, an archive. limit is
// the longest row in bytes, 0: [DefaultLimit].
func Open(path string, limit int) (*Reader, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = DefaultLimit
	}
	r := &Reader{name: path, file: f, limit: limit}
	if b, err := f.Peek(3); err == nil && string(b) == "\ufeff" {
		f.Discard(3)
	}
	switch f.beneath {
	case columns:
		if f.packed {
			err = errors.New("a compressed Parquet file, which cannot be read in parts; decompress it")
		} else {
			r.table, err = openTable(f.raw, f.size)
		}
	case list:
		r.list = json.NewDecoder(f)
		_, err = r.list.Token()
	}
	if err != nil {
		f.Close()
		return nil, diag.Wrap(diag.KindData, "open data", path, err)
	}
	return r, nil
}

// Unit is what [Raw.Number] counts: "line" or "row".
func (r *Reader) Unit() string {
	if r.file.beneath == lines {
		return "line"
	}
	return "row"
}

// Next gives the next row, io.EOF after the last, or a [*Bad]. After any other error,
// which is of kind data, there is nothing more to read.
func (r *Reader) Next() (Raw, error) {
	for {
		if r.over {
			return Raw{}, io.EOF
		}
		raw, err := r.read()
		var bad *Bad
		switch {
		case err == nil && raw.data != nil && len(bytes.TrimSpace(raw.data)) == 0:
			continue
		case err == nil || errors.As(err, &bad):
			return raw, err
		case errors.Is(err, io.EOF):
			r.over = true
			return Raw{}, io.EOF
		}
		r.over = true
		where := fmt.Sprintf("%s, %s %d", r.name, r.Unit(), r.number)
		return Raw{}, diag.Wrap(diag.KindData, "read data", where, err)
	}
}

func (r *Reader) read() (Raw, error) {
	r.number++
	switch {
	case r.table != nil:
		fields, err := r.table.next()
		var bad *SyntaxError
		if errors.As(err, &bad) {
			return Raw{}, &Bad{r.number, bad.Field, bad.Text}
		}
		if err != nil && !errors.Is(err, io.EOF) && r.table.until >= r.number {
			first := r.number
			r.number = r.table.leave()
			return Raw{}, &Bad{r.number, "", fmt.Sprintf("rows %d to %d cannot be read: %v", first, r.number, err)}
		}
		return Raw{Number: r.number, fields: fields}, err
	case r.list != nil:
		if !r.list.More() {
			if _, err := r.list.Token(); err != nil {
				return Raw{}, fmt.Errorf("the list has no end: %w", unexpected(err))
			}
			return Raw{}, io.EOF
		}
		var raw json.RawMessage
		if err := r.list.Decode(&raw); err != nil {
			return Raw{}, fmt.Errorf("no JSON, so that the rest of the list cannot be read: %w", unexpected(err))
		}
		if len(raw) > r.limit {
			return Raw{}, r.long(int64(len(raw)))
		}
		return Raw{Number: r.number, data: raw}, nil
	}
	data, size, err := readLine(r.file.Reader, r.limit)
	if err != nil {
		return Raw{}, err
	}
	if size > int64(r.limit) {
		return Raw{}, r.long(size)
	}
	return Raw{Number: r.number, data: data}, nil
}

func (r *Reader) long(size int64) *Bad {
	return &Bad{r.number, "", fmt.Sprintf("%d bytes, more than the %d that a row may have", size, r.limit)}
}

// unexpected makes an error of an end where there should be none.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readLine reads a line without its end. Of a line beyond the limit it gives no more
// than the size. io.EOF: there is no further line.
func readLine(b *bufio.Reader, limit int) (line []byte, size int64, err error) {
	line = []byte{}
	for {
		part, err := b.ReadSlice('\n')
		size += int64(len(part))
		if size <= int64(limit)+1 {
			line = append(line, part...)
		} else {
			line = line[:0:0]
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size > 0, err == nil:
			if err == nil {
				size--
			}
			return bytes.TrimSuffix(line, []byte("\n")), size, nil
		}
		return nil, 0, err
	}
}

// Skip passes over the first n rows of the file. It is called before Next.
func (r *Reader) Skip(n int64) error {
	if r.table != nil {
		r.number = n
		err := r.table.skip(n)
		if errors.Is(err, io.EOF) {
			r.over = true
			err = nil
		}
		return diag.Wrap(diag.KindData, "read data", r.name, err)
	}
	for r.number < n {
		if r.list == nil {
			_, _, err := readLine(r.file.Reader, 0)
			if errors.Is(err, io.EOF) {
				r.over = true
				return nil
			}
			if err != nil {
				return diag.Wrap(diag.KindData, "read data", r.name, err)
			}
			r.number++
			continue
		}
		var bad *Bad
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil && !errors.As(err, &bad) {
			return err
		}
	}
	return nil
}

// Progress says how much of the file has been read, in bytes as they lie on the disk; of
// Parquet it is an estimate.
func (r *Reader) Progress() (done, total int64) {
	if r.table != nil {
		if n := r.table.file.NumRows(); n > 0 {
			done = int64(float64(r.file.size) * float64(min(r.number, n)) / float64(n))
		}
		return done, r.file.size
	}
	return r.file.read.n.Load(), r.file.size
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.table != nil {
		r.table.close()
	}
	return r.file.Close()
}

// Package records is the normal form of data on the disk: a file of one record a
// line, each the JSON of [sdk.Record] with the names of its fields as keys, in their
// order, without those that are empty. The file may be compressed with zstd or gzip,
// told by its name when it is written and by its bytes when it is read.
//
//	{"ID":"acme__shop-12","Repo":"acme/shop","BaseCommit":"…","Problem":"…","Workspace":{"Image":"…"},…}
//
// Bytes are in base64, and so is a text that is no Unicode, as {"base64": "…"}: nothing
// is changed by writing and reading. A list of files of more than 4 KiB stands as
// {"tree": "sha256:…"} and lies in a folder beside the file ([BlobFolder]) by its
// content, so that ten thousand records of one repository are one tree and small.
package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// fingerprint stands for an ID in a set; two IDs never share one in practice.
type fingerprint [12]byte

func fingerprintOf(id string) fingerprint {
	sum := sha256.Sum256([]byte(id))
	return fingerprint(sum[:12])
}

// Bad is a line that is no record.
type Bad struct {
	Line  int64
	Field string // "" if the line as a whole is wrong
	Text  string
}

func (b *Bad) Error() string {
	if b.Field != "" {
		return fmt.Sprintf("line %d: %s: %s", b.Line, b.Field, b.Text)
	}
	return fmt.Sprintf("line %d: %s", b.Line, b.Text)
}

// Reader reads a records file, one record after the other. It is not safe for
// concurrent use. Records may share the memory of files with one another: they are
// read-only.
type Reader struct {
	path    string
	rows    *rows.Reader
	decoder decoder
	ids     map[fingerprint]bool
}

// Open opens a records file. Errors are of kind data.
func Open(path string) (*Reader, error) { return openBeside(path, path) }

// openBeside opens a file whose trees lie beside another name, as those of an
// unfinished file do.
func openBeside(path, name string) (*Reader, error) {
	r, err := rows.Open(path, 0)
	if err != nil {
		return nil, err
	}
	return &Reader{path: path, rows: r, decoder: decoder{newBlobs(name).tree}, ids: map[fingerprint]bool{}}, nil
}

// Next gives the next record, io.EOF after the last, and a [*Bad] for a line that is
// none, after which it goes on: one that is no JSON, has a key that no record has, a
// value of another type, no ID, or that of an earlier line.
func (r *Reader) Next() (*sdk.Record, error) {
	raw, err := r.rows.Next()
	var long *rows.Bad
	if errors.As(err, &long) {
		return nil, &Bad{long.Number, long.Field, long.Text}
	}
	if err != nil {
		return nil, err
	}
	fields, err := raw.Fields()
	var rec *sdk.Record
	if err == nil {
		rec, err = r.decoder.from(fields)
	}
	if err != nil {
		bad := &Bad{Line: raw.Number}
		bad.Field, bad.Text = Explain(err)
		return nil, bad
	}
	id := fingerprintOf(rec.ID)
	switch {
	case rec.ID == "":
		return nil, &Bad{raw.Number, "ID", "the record has none"}
	case r.ids[id]:
		return nil, &Bad{raw.Number, "ID", fmt.Sprintf("%q is that of an earlier record, too", rec.ID)}
	}
	r.ids[id] = true
	return rec, nil
}

// Progress says how much of the file has been read, in bytes as they lie on the disk.
func (r *Reader) Progress() (done, total int64) { return r.rows.Progress() }

// Close closes the file.
func (r *Reader) Close() error { return r.rows.Close() }

// Decoder reads single lines of one records file. It is safe for concurrent use.
type Decoder struct{ decoder decoder }

// NewDecoder makes the decoder for the lines of a file, beside which its trees lie.
func NewDecoder(path string) *Decoder { return &Decoder{decoder{newBlobs(path).tree}} }

// Decode makes a record of a row's fields. The error names the field.
func (d *Decoder) Decode(fields []rows.Field) (*sdk.Record, error) { return d.decoder.from(fields) }

// Explain splits an error into the field that is wrong and what is wrong with it.
func Explain(err error) (field, text string) {
	var w *wrong
	var s *rows.SyntaxError
	switch {
	case errors.As(err, &w):
		return w.field, w.err.Error()
	case errors.As(err, &s):
		return s.Field, fmt.Sprintf("byte %d: %s", s.Offset, s.Text)
	}
	return "", err.Error()
}

// Read gives all records of a file that has no bad line: the first one is the error, of
// kind data, with file, line and field.
func Read(path string) ([]*sdk.Record, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []*sdk.Record
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, diag.Wrap(diag.KindData, "read records", path, err)
		}
		out = append(out, rec)
	}
}

// Differences names the fields in which two records differ, in their order.
func Differences(a, b *sdk.Record) []string {
	e := encoder{files: digestOf}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	var out []string
	for i := range x.NumField() {
		p, _ := e.value(nil, x.Field(i))
		q, _ := e.value(nil, y.Field(i))
		if !bytes.Equal(p, q) {
			out = append(out, x.Type().Field(i).Name)
		}
	}
	return out
}

// digestOf stands for the content of a list of files.
func digestOf(files []sdk.File) (string, error) {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %t %d\n", f.Path, f.Exec, len(f.Data))
		h.Write(f.Data)
	}
	return prefix + hex.EncodeToString(h.Sum(nil)), nil
}

package records

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// Writer writes a records file. Until [Writer.Finish] the file does not exist under its
// name: records go to NAME.partial, and NAME.cursor says how much of it holds, so that
// a process killed at any moment loses nothing but what came after its last
// [Writer.Checkpoint]. It is not safe for concurrent use.
type Writer struct {
	path    string
	file    *os.File
	buffer  *bufio.Writer
	packer  packer // nil: not compressed
	out     io.Writer
	encoder encoder
	line    []byte
	ids     map[fingerprint]bool
	records int64
}

// cursor is the content of NAME.cursor.
type cursor struct {
	Bytes   int64           `json:"bytes"` // of NAME.partial that hold
	Records int64           `json:"records"`
	State   json.RawMessage `json:"state,omitempty"` // the caller's own
}

// packer compresses in members that can be cut off one after the other.
type packer interface {
	io.WriteCloser
	Reset(io.Writer)
}

func partial(path string) string    { return path + ".partial" }
func cursorFile(path string) string { return path + ".cursor" }

// packing gives the compression that a name asks for: .zst, .gz, else none.
func packing(path string) (packer, error) {
	switch filepath.Ext(path) {
	case ".zst":
		return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	case ".gz":
		return gzip.NewWriter(nil), nil
	}
	return nil, nil
}

const opWrite = "write records"

// Create starts a records file, or goes on with one that was not finished: state is
// then what the last [Writer.Checkpoint] kept, and nil for a new one. The compression is
// told by the name: .zst, .gz, else none. A file of that name is not touched before
// [Writer.Finish] replaces it. Errors are of kind data.
func Create(path string) (w *Writer, state json.RawMessage, err error) {
	w = &Writer{path: path, ids: map[fingerprint]bool{}, encoder: encoder{files: newBlobs(path).putTree}}
	if w.packer, err = packing(path); err != nil {
		return nil, nil, diag.Wrap(diag.KindData, opWrite, path, err)
	}
	at, err := w.resume()
	if err == nil {
		err = w.open(at.Bytes)
	}
	if err != nil {
		return nil, nil, diag.Wrap(diag.KindData, opWrite, path, err)
	}
	return w, at.State, nil
}

// resume reads what an earlier process left.
func (w *Writer) resume() (at cursor, err error) {
	b, err := os.ReadFile(cursorFile(w.path))
	if errors.Is(err, fs.ErrNotExist) {
		return cursor{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &at)
	}
	if err != nil {
		return cursor{}, err
	}
	info, err := os.Stat(partial(w.path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < at.Bytes {
		return cursor{}, nil // killed while it was finished, or tampered with
	}
	if err != nil || at.Bytes == 0 {
		return cursor{}, err
	}
	// What follows the cursor may end in the middle of a compressed block.
	if err := os.Truncate(partial(w.path), at.Bytes); err != nil {
		return cursor{}, err
	}
	r, err := openBeside(partial(w.path), w.path)
	if err != nil {
		return cursor{}, err
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cursor{}, err
		}
		w.ids[fingerprintOf(rec.ID)] = true
		w.records++
	}
	if w.records != at.Records {
		return cursor{}, fmt.Errorf("%s has %d records, its cursor says %d; remove both to start anew", partial(w.path), w.records, at.Records)
	}
	return at, nil
}

func (w *Writer) open(at int64) error {
	if err := os.MkdirAll(filepath.Dir(w.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(partial(w.path), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Truncate(at); err != nil {
		f.Close()
		return err
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		f.Close()
		return err
	}
	w.file, w.buffer = f, bufio.NewWriterSize(f, 1<<18)
	w.out = w.buffer
	if w.packer != nil {
		w.packer.Reset(w.buffer)
		w.out = w.packer
	}
	return nil
}

// Records is how many records the file has.
func (w *Writer) Records() int64 { return w.records }

// ErrRepeated is the error of a record whose ID the file has already.
var ErrRepeated = errors.New("the file has a record of this ID already")

// Append adds a record. Nothing is added if it errs, with [ErrRepeated] for an ID that
// is there already; the writer can go on.
func (w *Writer) Append(r *sdk.Record) error {
	fail := func(err error) error { return diag.Wrap(diag.KindData, opWrite, w.path+": "+r.ID, err) }
	if r.ID == "" {
		return fail(errors.New("the record has no ID"))
	}
	id := fingerprintOf(r.ID)
	if w.ids[id] {
		return fail(ErrRepeated)
	}
	line, err := w.encoder.record(w.line[:0], r)
	if err != nil {
		return fail(err)
	}
	w.line = append(line, '\n')
	if _, err := w.out.Write(w.line); err != nil {
		return fail(err)
	}
	w.ids[id] = true
	w.records++
	return nil
}

// Checkpoint puts on the disk all that was appended, and state with it, which
// [Create] gives back. It costs two flushes: once a second is often enough.
func (w *Writer) Checkpoint(state any) error {
	at := cursor{Records: w.records}
	err := w.flush()
	if err == nil {
		at.Bytes, err = w.file.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		at.State, err = json.Marshal(state)
	}
	if err == nil {
		var b []byte
		if b, err = json.Marshal(at); err == nil {
			err = replace(cursorFile(w.path), b)
		}
	}
	return diag.Wrap(diag.KindData, opWrite, w.path, err)
}

func (w *Writer) flush() error {
	if w.packer != nil {
		if err := w.packer.Close(); err != nil {
			return err
		}
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	if w.packer != nil {
		w.packer.Reset(w.buffer)
	}
	return w.file.Sync()
}

// Finish gives the file its name.
func (w *Writer) Finish() error {
	err := w.flush()
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(partial(w.path), w.path)
	}
	if err == nil {
		err = settle(filepath.Dir(w.path))
	}
	if err == nil {
		err = os.Remove(cursorFile(w.path))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return diag.Wrap(diag.KindData, opWrite, w.path, err)
}

// Close leaves the file unfinished, to be gone on with.
func (w *Writer) Close() error {
	if err := w.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Discard removes what an unfinished file has left, so that [Create] starts anew.
func Discard(path string) error {
	var errs []error
	for _, p := range []string{cursorFile(path), partial(path)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return diag.Wrap(diag.KindData, opWrite, path, errors.Join(errs...))
}

// Unfinished says whether a file of this name was begun and not finished.
func Unfinished(path string) bool {
	_, err := os.Stat(cursorFile(path))
	_, err2 := os.Stat(partial(path))
	return err == nil && err2 == nil
}

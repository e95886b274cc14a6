package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/core/diag"
)

const op = "read trajectories"

// limit is the longest row that is read: 256 MiB, since a row may have the tokens of a
// long conversation.
const limit = 256 << 20

// Place is where a transcript stands.
type Place struct {
	File   string
	Unit   string // line or row; "" of a file with one trajectory
	Number int64
}

func (p Place) String() string {
	if p.Unit == "" {
		return p.File
	}
	return fmt.Sprintf("%s, %s %d", p.File, p.Unit, p.Number)
}

// Found is a transcript and where it stands, or what is wrong with what stands there:
// Err is of diag.KindData and names file, line and field. After it the next one may be
// read.
type Found struct {
	*Transcript
	Place Place
	Err   error
}

// Files lists the files of trajectories at path: path itself or, of a folder, *.json,
// *.jsonl, *.parquet and episodes, sorted by name.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, path, err)
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		plain := strings.TrimSuffix(strings.TrimSuffix(name, ".zst"), ".gz")
		switch ext := filepath.Ext(plain); {
		case e.IsDir(), strings.HasPrefix(name, "."):
		case ext == ".jsonl", plain == name && (ext == ".parquet" || ext == ".json" && !ours[name]):
			files = append(files, filepath.Join(path, name))
		}
	}
	slices.Sort(files)
	if len(files) == 0 {
		return nil, diag.Errorf(diag.KindData, op, path, "no *.json, *.jsonl, *.parquet or *.episodes.jsonl.zst in the folder")
	}
	return files, nil
}

// ours are files of a folder that hold no trajectory.
var ours = map[string]bool{"summary.json": true}

// Read gives the transcripts of a file in their order: of JSON lines, a JSON list or
// Parquet whose rows are messages, ATIF trajectories or episodes, or of one of these
// objects (*.json). What a file is is told by what is in it. An error of the whole
// file ends the sequence with a Found that has no line.
func Read(file string) iter.Seq[Found] {
	return func(yield func(Found) bool) {
		whole := func(err error) { yield(Found{Place: Place{File: file}, Err: diag.Wrap(diag.KindData, op, file, err)}) }
		if data, ok, err := single(file); ok || err != nil {
			var t *Transcript
			if err == nil {
				t, err = fromObject(data)
			}
			if err != nil {
				whole(err)
				return
			}
			yield(Found{Transcript: t, Place: Place{File: file}})
			return
		}
		r, err := rows.Open(file, limit)
		if err != nil {
			whole(err)
			return
		}
		defer r.Close()
		for {
			raw, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			f := Found{Place: Place{file, r.Unit(), raw.Number}}
			var bad *rows.Bad
			if errors.As(err, &bad) {
				f.Place.Number = bad.Number
				err = &FieldError{bad.Field, bad.Text}
			} else if err != nil {
				yield(Found{Place: Place{File: file}, Err: err})
				return
			}
			if err == nil {
				f.Transcript, err = fromRow(raw)
			}
			f.Err = diag.Wrap(diag.KindData, op, f.Place.String(), err)
			if !yield(f) {
				return
			}
		}
	}
}

// single reads a file *.json with one object, over several lines or over one; ok is
// false if it is none.
func single(file string) (data []byte, ok bool, err error) {
	if filepath.Ext(file) != ".json" {
		return nil, false, nil
	}
	if data, err = os.ReadFile(file); err != nil {
		return nil, false, err
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	return text, bytes.HasPrefix(text, []byte("{")), nil
}

func fromObject(data []byte) (*Transcript, error) {
	fields, err := rows.Object(data)
	var bad *rows.SyntaxError
	if errors.As(err, &bad) {
		return nil, &FieldError{bad.Field, fmt.Sprintf("byte %d: %s", bad.Offset, bad.Text)}
	}
	return columnsOf(fields).transcript(data)
}

func fromRow(raw rows.Raw) (*Transcript, error) {
	if data := raw.JSON(); data != nil {
		return fromObject(data)
	}
	fields, err := raw.Fields()
	if err != nil {
		return nil, err
	}
	return columnsOf(fields).transcript(nil)
}

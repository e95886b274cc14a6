// Package trial runs the tests of trees in sandboxes, many at the same time, and
// remembers on disk how each run ended, so that work that was stopped at any moment
// goes on where it was.
package trial

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/valence-rl/valence/core/diag"
)

// Journal keeps answers by their question in a file of JSON lines, each written at one
// stroke. A line that was cut off is dropped when the file is opened. It is safe for
// concurrent use; two processes must not share one.
type Journal struct {
	mu    sync.Mutex
	file  *os.File
	known map[string]json.RawMessage
	asked int
	had   int
}

const opJournal = "keep journal"

// OpenJournal opens the file, which is made if need be. "" keeps answers in memory
// alone. Errors are diag.Errors of KindData.
func OpenJournal(name string) (*Journal, error) {
	j := &Journal{known: map[string]json.RawMessage{}}
	if name == "" {
		return j, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, opJournal, name, err)
	}
	if err := j.load(f); err != nil {
		f.Close()
		return nil, diag.Wrap(diag.KindData, opJournal, name, err)
	}
	j.file = f
	return j, nil
}

type entry struct {
	Key   string          `json:"k"`
	Value json.RawMessage `json:"v"`
}

func (j *Journal) load(f *os.File) error {
	r := bufio.NewReaderSize(f, 1<<20)
	var whole int64
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			return f.Truncate(whole)
		}
		var e entry
		if json.Unmarshal(line, &e) != nil || e.Key == "" {
			return f.Truncate(whole) // what follows a torn line is of no use either
		}
		whole += int64(len(line))
		j.known[e.Key] = bytes.Clone(e.Value)
	}
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return diag.Wrap(diag.KindData, opJournal, "", err)
}

// Remembered is how many questions were asked, and of how many the answer was known.
func (j *Journal) Remembered() (asked, known int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asked, j.had
}

func (j *Journal) find(key string, v any) (bool, error) {
	j.mu.Lock()
	raw, ok := j.known[key]
	j.asked++
	if ok {
		j.had++
	}
	j.mu.Unlock()
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

func (j *Journal) keep(key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line, err := json.Marshal(entry{key, raw})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known[key] = raw
	if j.file == nil {
		return nil
	}
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// Recall gives the answer that the journal has for a key, or makes it and keeps it.
// An error is not kept.
func Recall[T any](j *Journal, key string, answer func() (T, error)) (T, error) {
	var v T
	if ok, err := j.find(key, &v); ok || err != nil {
		return v, diag.Wrap(diag.KindData, opJournal, key, err)
	}
	v, err := answer()
	if err != nil {
		return v, err
	}
	return v, diag.Wrap(diag.KindData, opJournal, key, j.keep(key, v))
}

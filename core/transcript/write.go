package transcript

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/valence-rl/valence/core/atif"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// Forms lists what [Create] writes.
var Forms = []string{"messages", "atif", "parquet"}

// Writer writes trajectories in one of the forms. What is written appears under its name
// by Finish, whole; Discard, which may follow it, takes away what is unfinished.
type Writer interface {
	Add(e *journal.Episode) error
	Finish() error
	Discard()
}

// Create begins a file, or for ATIF without an extension a folder with a file each. With
// bare, messages have the keys messages and tools alone. .gz and .zst compress lines.
func Create(form, path string, bare bool) (Writer, error) {
	if form == "atif" && filepath.Ext(path) == "" {
		return newFolder(path)
	}
	f, err := newLines(path, form != "parquet")
	if err != nil {
		return nil, err
	}
	switch form {
	case "messages":
		return &messagesWriter{f, bare}, nil
	case "atif":
		return &atifWriter{f}, nil
	case "parquet":
		return &parquetWriter{f, parquet.NewGenericWriter[record](f.buffer, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(256))}, nil
	}
	f.Discard()
	return nil, diag.Errorf(diag.KindConfig, "write trajectories", form, "no such form; there are %v", Forms)
}

// lines is a file that is being written beside its place.
type lines struct {
	path   string
	file   *os.File
	buffer *bufio.Writer
	packer io.WriteCloser // nil: not compressed
}

func newLines(path string, packed bool) (*lines, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".trajectories-*")
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "write trajectories", path, err)
	}
	l := &lines{path: path, file: f, buffer: bufio.NewWriterSize(f, 1<<18)}
	switch ext := filepath.Ext(path); {
	case !packed:
	case ext == ".gz":
		l.packer = gzip.NewWriter(l.buffer)
	case ext == ".zst":
		if l.packer, err = zstd.NewWriter(l.buffer); err != nil {
			l.Discard()
			return nil, diag.Wrap(diag.KindData, "write trajectories", path, err)
		}
	}
	return l, nil
}

func (l *lines) put(v any) error {
	w := io.Writer(l.buffer)
	if l.packer != nil {
		w = l.packer
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return diag.Wrap(diag.KindData, "write trajectories", l.path, e.Encode(v))
}

// Finish implements [Writer].
func (l *lines) Finish() error {
	var err error
	if l.packer != nil {
		err = l.packer.Close()
	}
	err = errors.Join(err, l.buffer.Flush(), l.file.Chmod(0o644), l.file.Sync(), l.file.Close())
	if err == nil {
		err = os.Rename(l.file.Name(), l.path)
	}
	return diag.Wrap(diag.KindData, "write trajectories", l.path, err)
}

// Discard implements [Writer].
func (l *lines) Discard() {
	l.file.Close()
	os.Remove(l.file.Name()) // gone already if it has its name
}

type messagesWriter struct {
	*lines
	bare bool
}

// Add implements [Writer].
func (w *messagesWriter) Add(e *journal.Episode) error {
	t, err := FromEpisode(e)
	if err != nil {
		return diag.Wrap(diag.KindData, "write trajectory", e.ID, err)
	}
	r := row{Messages: t.messages(), Tools: t.Tools}
	if w.bare {
		for i := range r.Messages {
			r.Messages[i].Reasoning = nil
		}
	} else {
		r.about = t.about()
	}
	return w.put(r)
}

type parquetWriter struct {
	*lines
	table *parquet.GenericWriter[record]
}

// Add implements [Writer].
func (w *parquetWriter) Add(e *journal.Episode) error {
	t, err := FromEpisode(e)
	if err != nil {
		return diag.Wrap(diag.KindData, "write trajectory", e.ID, err)
	}
	tools, err := json.Marshal(t.Tools)
	if err == nil {
		_, err = w.table.Write([]record{{t.messages(), string(tools), *t.about()}})
	}
	return diag.Wrap(diag.KindData, "write trajectory", e.ID, err)
}

// Finish implements [Writer].
func (w *parquetWriter) Finish() error {
	if err := w.table.Close(); err != nil {
		return diag.Wrap(diag.KindData, "write trajectories", w.path, err)
	}
	return w.lines.Finish()
}

type atifWriter struct{ *lines }

// Add implements [Writer].
func (w *atifWriter) Add(e *journal.Episode) error { return w.put(exchanged(e)) }

// folder is a folder of ATIF files that is being written beside its place.
type folder struct {
	path, at string
	n        int
}

func newFolder(path string) (*folder, error) {
	at, err := os.MkdirTemp(filepath.Dir(filepath.Clean(path)), ".trajectories-*")
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "write trajectories", path, err)
	}
	return &folder{path: path, at: at}, nil
}

// Add implements [Writer].
func (f *folder) Add(e *journal.Episode) error {
	b, err := json.MarshalIndent(exchanged(e), "", "  ")
	if err == nil {
		f.n++
		err = os.WriteFile(filepath.Join(f.at, fmt.Sprintf("%06d.json", f.n)), append(b, '\n'), 0o644)
	}
	return diag.Wrap(diag.KindData, "write trajectory", e.ID, err)
}

// Finish implements [Writer]. A folder of that name that is not empty is an error.
func (f *folder) Finish() error {
	err := os.Chmod(f.at, 0o755)
	if err == nil {
		err = os.Remove(f.path)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(f.at, f.path)
	}
	return diag.Wrap(diag.KindData, "write trajectories", f.path, err)
}

// Discard implements [Writer].
func (f *folder) Discard() { os.RemoveAll(f.at) }

// exchanged is an episode's trajectory for other programs: with its verdict, and with
// each prompt's token ids whole, as the format has them.
func exchanged(e *journal.Episode) *atif.Trajectory {
	a := *e.Trajectory
	a.Extra = maps.Clone(a.Extra)
	if a.Extra == nil {
		a.Extra = map[string]any{}
	}
	a.Extra["skill"], a.Extra["end"], a.Extra["task"] = e.Skill, e.End, e.Task
	if e.Outcome == journal.Scored {
		a.Extra["score"], a.Extra["reason"] = e.Score, e.Reason
		if len(e.Plugins) > 0 {
			a.Extra["plugins"] = e.Plugins
		}
	}
	a.SessionID, a.TrajectoryID = e.ID, e.ID
	a.Steps = slices.Clone(a.Steps)
	var seen []int
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Metrics == nil || len(s.Metrics.CompletionTokenIDs) == 0 {
			continue
		}
		m := *s.Metrics
		m.PromptTokenIDs = prompt(&m, seen)
		m.Extra = maps.Clone(m.Extra)
		delete(m.Extra, "prompt_token_ids")
		seen = slices.Concat(m.PromptTokenIDs, m.CompletionTokenIDs)
		s.Metrics = &m
	}
	return &a
}

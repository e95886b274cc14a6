package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
)

// Log is a file of episodes that grows one at a time. Each is a compressed frame of its
// own, so that the file is read by [ReadEpisodes], and by [Log.At] from any place. It is
// not safe for concurrent use.
type Log struct {
	path string
	file *os.File
	end  int64
	pack *zstd.Encoder
	open *zstd.Decoder
}

// Place is where an episode stands in a log.
type Place struct{ From, Size int64 }

// OpenLog opens a log, or makes it. What a killed process left half-written at its end
// is cut off; each gets every other episode, in the order in which they were appended. A log
// that is damaged before its end is an error.
func OpenLog(path string, each func(Place, *Episode) error) (l *Log, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, diag.Wrap(diag.KindData, "open episodes", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "open episodes", path, err)
	}
	l = &Log{path: path, file: f}
	defer func() {
		if err != nil {
			l.Close()
			l, err = nil, diag.Wrap(diag.KindData, "open episodes", path, err)
		}
	}()
	if l.pack, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
		return l, err
	}
	if l.open, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err != nil {
		return l, err
	}
	info, err := f.Stat()
	if err != nil {
		return l, err
	}
	for l.end < info.Size() {
		size, err := frame(io.NewSectionReader(f, l.end, info.Size()-l.end))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return l, fmt.Errorf("byte %d: %w", l.end, err)
		}
		p := Place{l.end, size}
		e, err := l.At(p)
		if err != nil {
			return l, err
		}
		if err := each(p, e); err != nil {
			return l, err
		}
		l.end += size
	}
	if l.end == info.Size() {
		return l, nil
	}
	return l, errors.Join(f.Truncate(l.end), f.Sync())
}

// Append adds an episode. When it returns, the episode is on the disk; after an error
// the log is as it was.
func (l *Log) Append(e *Episode) (Place, error) {
	fail := func(err error) (Place, error) {
		return Place{}, diag.Wrap(diag.KindData, "write episode", l.path, err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return fail(err)
	}
	packed := l.pack.EncodeAll(b.Bytes(), nil)
	_, err := l.file.WriteAt(packed, l.end)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fail(errors.Join(err, l.file.Truncate(l.end)))
	}
	p := Place{l.end, int64(len(packed))}
	l.end += p.Size
	return p, nil
}

// At reads the episode at a place.
func (l *Log) At(p Place) (*Episode, error) {
	fail := func(err error) (*Episode, error) {
		return nil, diag.Errorf(diag.KindData, "read episode", l.path, "byte %d: %w", p.From, err)
	}
	packed := make([]byte, p.Size)
	if _, err := l.file.ReadAt(packed, p.From); err != nil {
		return fail(err)
	}
	data, err := l.open.DecodeAll(packed, nil)
	if err != nil {
		return fail(err)
	}
	var e Episode
	if err := json.Unmarshal(data, &e); err != nil {
		return fail(err)
	}
	return &e, nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l.open != nil {
		l.open.Close()
	}
	return diag.Wrap(diag.KindData, "close episodes", l.path, l.file.Close())
}

// frame gives the size of the zstd frame at the beginning of r (RFC 8878, 3.1.1);
// io.ErrUnexpectedEOF if r ends within it.
func frame(r *io.SectionReader) (int64, error) {
	head := make([]byte, zstd.HeaderMaxSize)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var h zstd.Header
	switch err := h.Decode(head[:n]); {
	case errors.Is(err, io.ErrUnexpectedEOF) && n < len(head):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("no episode begins here: %w", err)
	}
	at := int64(h.HeaderSize)
	for last := false; !last; {
		var b [4]byte
		if _, err := r.ReadAt(b[:3], at); err != nil {
			return 0, unexpected(err)
		}
		v := binary.LittleEndian.Uint32(b[:])
		last = v&1 != 0
		size := int64(v >> 3)
		if v>>1&3 == 1 { // one byte, repeated
			size = 1
		}
		at += 3 + size
	}
	if h.HasCheckSum {
		at += 4
	}
	if at > r.Size() {
		return 0, io.ErrUnexpectedEOF
	}
	return at, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

package records

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/sdk"
)

// blobs is the folder beside a records file where lists of files lie by their content:
// a tree is the list of paths, and each file's bytes lie once, however many records
// and trees have it.
//
//	records.jsonl.blobs/ab/cdef…    64 hexadecimal digits of the SHA-256, cut after two
type blobs struct {
	dir string

	mu    sync.Mutex
	known map[string]bool // digests that are on the disk
	trees map[string][]sdk.File
	order []string // of trees, oldest first
}

// keep is how many trees stay in memory: neighbours in a file often share one.
const keep = 8

func newBlobs(file string) *blobs {
	return &blobs{dir: BlobFolder(file), known: map[string]bool{}, trees: map[string][]sdk.File{}}
}

// BlobFolder is where the large lists of files of a records file lie; it is there only
// if there are any, and goes where the file goes.
func BlobFolder(file string) string { return file + ".blobs" }

const prefix = "sha256:"

func (s *blobs) path(digest string) (string, error) {
	h, ok := strings.CutPrefix(digest, prefix)
	if b, err := hex.DecodeString(h); !ok || err != nil || len(b) != sha256.Size || strings.ToLower(h) != h {
		return "", fmt.Errorf("%q is no digest: want sha256: and 64 digits", digest)
	}
	return filepath.Join(s.dir, h[:2], h[2:]), nil
}

// put writes a blob unless it is there. It is on the disk when put returns.
func (s *blobs) put(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	digest := prefix + hex.EncodeToString(sum[:])
	if s.known[digest] {
		return digest, nil
	}
	p, err := s.path(digest)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
		err = replace(p, data)
		if err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	s.known[digest] = true
	return digest, nil
}

// putTree writes a list of files.
func (s *blobs) putTree(files []sdk.File) (string, error) {
	b := []byte{'['}
	for i, f := range files {
		digest, err := s.put(f.Data)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b = append(b, ",\n"...)
		}
		b = appendText(append(b, `{"Path":`...), f.Path)
		b = append(b, `,"Blob":`...)
		b = rows.AppendText(b, digest)
		if f.Exec {
			b = append(b, `,"Exec":true`...)
		}
		b = append(b, '}')
	}
	return s.put(append(b, "]\n"...))
}

// get reads a blob and holds it to its digest.
func (s *blobs) get(digest string) ([]byte, error) {
	p, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not in %s; the folder goes where the file goes", digest, s.dir)
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); prefix+hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%s was damaged: its content has another digest", p)
	}
	return data, nil
}

// tree reads a list of files. Lists of one digest share their memory.
func (s *blobs) tree(digest string) ([]sdk.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if files, ok := s.trees[digest]; ok {
		return files, nil
	}
	data, err := s.get(digest)
	if err != nil {
		return nil, err
	}
	items, err := rows.Elements(data)
	if err != nil {
		return nil, err
	}
	files := make([]sdk.File, len(items))
	for i, item := range items {
		if err := s.entry(item, &files[i]); err != nil {
			return nil, fmt.Errorf("tree %s, file %d: %w", digest, i+1, err)
		}
	}
	if len(s.order) == keep {
		delete(s.trees, s.order[0])
		s.order = s.order[1:]
	}
	s.trees[digest], s.order = files, append(s.order, digest)
	return files, nil
}

func (s *blobs) entry(item rows.Value, f *sdk.File) error {
	fields, err := rows.Object(item.JSON)
	if err != nil {
		return err
	}
	for _, v := range fields {
		switch v.Name {
		case "Path":
			f.Path, err = text(v.Value)
		case "Blob":
			f.Data, err = s.get(v.Value.Text)
		case "Exec":
			f.Exec = string(v.Value.JSON) == "true"
		default:
			err = fmt.Errorf("%s: a file has no such key", v.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

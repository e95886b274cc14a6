package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// Source is one file of rows, or one folder of a task.
type Source struct {
	Path   string
	Size   int64 // bytes on the disk
	Folder bool  // a Harbor task
}

// endings of the files that a folder is searched for.
var endings = []string{".jsonl", ".ndjson", ".json", ".parquet", ".jsonl.zst", ".jsonl.gz", ".json.zst", ".json.gz"}

// Sources lists what paths hold, in their order: a file is itself; of a folder, the
// Harbor tasks in it, or the files of data sets, sorted. It is an error of kind data if
// a path is not there or holds nothing.
func Sources(paths []string) ([]Source, error) {
	var out []Source
	for _, p := range paths {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &diag.Diagnostic{Kind: diag.KindData, Code: "D001", Summary: fmt.Sprintf("there is no %q", p), Hint: "name files or folders of data"}
		}
		if err != nil {
			return nil, diag.Wrap(diag.KindData, "open data", p, err)
		}
		if !info.IsDir() {
			out = append(out, Source{Path: p, Size: info.Size()})
			continue
		}
		found, err := search(p)
		if err != nil {
			return nil, diag.Wrap(diag.KindData, "open data", p, err)
		}
		if len(found) == 0 {
			return nil, &diag.Diagnostic{Kind: diag.KindData, Code: "D002", Summary: fmt.Sprintf("no data in the folder %q", p),
				Hint: "want files that end in " + strings.Join(endings, ", ") + ", or folders with a " + harborFile}
		}
		out = append(out, found...)
	}
	return out, nil
}

// search looks through a folder. It follows a link to a file, and to the folder itself.
func search(root string) (out []Source, err error) {
	if _, err := os.Stat(filepath.Join(root, harborFile)); err == nil {
		return []Source{{Path: root, Folder: true}}, nil
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && (strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".blobs")) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, harborFile)); err == nil {
				out = append(out, Source{Path: p, Folder: true})
				return filepath.SkipDir
			}
			return nil
		}
		if slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(d.Name(), e) }) {
			switch info, err := os.Stat(p); {
			case err != nil:
				out = append(out, Source{Path: p}) // reading says why
			case info.Mode().IsRegular():
				out = append(out, Source{Path: p, Size: info.Size()})
			}
		}
		return nil
	})
	// A folder of tasks may hold files of data, which belong to the tasks.
	if slices.ContainsFunc(out, func(s Source) bool { return s.Folder }) {
		out = slices.DeleteFunc(out, func(s Source) bool { return !s.Folder })
	}
	return out, err
}

package formats

import (
	"path"
	"slices"

	"github.com/valence-rl/valence/core/patch"
)

// diffs remembers what [patch.Inspect] says of the few diffs of one record.
type diffs map[string]inspected

type inspected struct {
	files []patch.Touched
	err   error
}

func (d diffs) inspect(diff string) ([]patch.Touched, error) {
	i, ok := d[diff]
	if !ok {
		i.files, i.err = patch.Inspect(diff)
		d[diff] = i
	}
	return i.files, i.err
}

// of lists the files of a diff, none of one that is refused, as [sound] will say.
func (d diffs) of(diff string) []patch.Touched {
	files, err := d.inspect(diff)
	if err != nil {
		return nil
	}
	return files
}

// languages are told by the extensions of the files that a patch changes.
var languages = map[string]string{
	".py": "python", ".pyx": "python", ".pyi": "python", ".go": "go", ".rs": "rust", ".java": "java", ".kt": "kotlin", ".scala": "scala",
	".js": "javascript", ".jsx": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".ts": "typescript", ".tsx": "typescript", ".vue": "typescript",
	".rb": "ruby", ".php": "php", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".cs": "csharp", ".swift": "swift",
}

// language is that of most files of a patch, the first by name among equals; "" if none
// is known.
func language(files []patch.Touched) string {
	count := map[string]int{}
	var order []string
	for _, f := range files {
		if l := languages[path.Ext(f.Path)]; l != "" {
			if count[l]++; count[l] == 1 {
				order = append(order, l)
			}
		}
	}
	slices.Sort(order)
	best := ""
	for _, l := range order {
		if count[l] > count[best] {
			best = l
		}
	}
	return best
}

// changed lists the files that a test patch leaves: those that are restored before tests
// are run.
func changed(files []patch.Touched) []string {
	var out []string
	for _, f := range files {
		p := f.Path
		if f.Renamed != "" {
			p = f.Renamed
		}
		if !f.Deleted && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

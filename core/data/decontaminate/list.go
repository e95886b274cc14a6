package decontaminate

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// AddList adds a text file of repositories and commits, one a line, as a suite of the
// file's name. Blank lines and what follows a # are passed over. The error is of kind
// data.
func AddList(a *Against, path string) error {
	fail := func(err error) error { return diag.Wrap(diag.KindData, "read list", path, err) }
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	name := filepath.Base(path)
	a.note(name)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if commitOf(text) != "" {
			a.AddCommit(name, text)
		} else {
			a.AddRepository(name, text)
		}
	}
	return fail(lines.Err())
}

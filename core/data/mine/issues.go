package mine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// Issues are the texts of issues by their number or name.
type Issues map[string]string

// ReadIssues reads issues: a folder with a file each, named after its number (12.md,
// 12.txt), or a file of JSON lines with number, title and body. Errors are of KindData
// and name file and line.
func ReadIssues(name string) (Issues, error) {
	const op = "read issues"
	info, err := os.Stat(name)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, name, err)
	}
	out := Issues{}
	if info.IsDir() {
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, diag.Wrap(diag.KindData, op, name, err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			data, err := os.ReadFile(filepath.Join(name, e.Name()))
			if err != nil {
				return nil, diag.Wrap(diag.KindData, op, name, err)
			}
			out[strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))] = strings.TrimSpace(strings.ToValidUTF8(string(data), "\uFFFD"))
		}
		return out, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, name, err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for n := 1; s.Scan(); n++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var i struct {
			Number      json.Number
			Title, Body string
		}
		if err := json.Unmarshal(s.Bytes(), &i); err != nil {
			return nil, diag.Errorf(diag.KindData, op, name, "line %d: %w", n, err)
		}
		if i.Number == "" {
			return nil, diag.Errorf(diag.KindData, op, name, "line %d: number: it has none", n)
		}
		out[i.Number.String()] = strings.TrimSpace(i.Title + "\n\n" + i.Body)
	}
	return out, diag.Wrap(diag.KindData, op, name, s.Err())
}

var linked = regexp.MustCompile(`(?i)(?:#|issues?/|GH-)(\d+)\b`)

// Of gives the text of the first issue that a commit's message names and that is there;
// "" if there is none.
func (i Issues) Of(message string) string {
	for _, m := range linked.FindAllStringSubmatch(message, -1) {
		if text := i[m[1]]; text != "" {
			return text
		}
	}
	return ""
}

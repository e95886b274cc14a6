package formats

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkImport reads rows of about 5 kB.
func BenchmarkImport(b *testing.B) {
	row := bench(map[string]any{"patch": gold + strings.ReplaceAll(strings.Replace(gold, "-1,2 +1,2", "-1,40 +1,40", 1), " x = 1\n", strings.Repeat(" \tx = 1, 2, 3, 4, 5, 6, 7, 8\n", 39)),
		"problem_statement": strings.Repeat("it fails when called twice\n", 60)})
	var text []byte
	for i := range 2000 {
		row["instance_id"] = fmt.Sprint(i)
		line, err := json.Marshal(row)
		if err != nil {
			b.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	path := filepath.Join(b.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		b.Fatal(err)
	}
	sources, err := Sources([]string{path})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		n := 0
		if err := Import(b.Context(), sources, Options{}, func(i Item) error {
			n++
			if i.Bad != nil {
				return i.Bad
			}
			return nil
		}); err != nil || n != 2000 {
			b.Fatal(n, err)
		}
	}
}

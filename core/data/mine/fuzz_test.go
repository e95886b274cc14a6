package mine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
)

func FuzzListed(f *testing.F) {
	f.Add("100644 blob 1111111111111111111111111111111111111111       7\tpkg/a.py\x00120000 blob 2222222222222222222222222222222222222222 3\tl\x00160000 commit 3333333333333333333333333333333333333333 -\tm\x00")
	f.Add("100644 blob 1 7\ta\x00100755 blob 1 7\ta/b\x00100644 blob 1 7\t../x\x00100644 blob 1 7\t.git/x\x00100644 blob 1 99999999\th")
	f.Fuzz(func(t *testing.T, text string) {
		files, objects, err := listed(text, &source.Tree{})
		if err != nil {
			return
		}
		if len(files) != len(objects) {
			t.Fatalf("%d files, %d objects", len(files), len(objects))
		}
		if err := patch.CheckTree(files); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzIssues(f *testing.F) {
	f.Add(`{"number": 3, "title": "A", "body": "b"}` + "\n\n" + `{"number": 4}`)
	name := filepath.Join(f.TempDir(), "issues")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		issues, err := ReadIssues(name)
		if err != nil && diag.KindOf(err) != diag.KindData {
			t.Fatal(err)
		}
		for n := range issues {
			if strings.TrimSpace(n) == "" {
				t.Fatalf("%q", issues)
			}
		}
	})
}

package registry

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every code of a diagnostic is in the package's table, and in that of the users.
func TestCodesAreDocumented(t *testing.T) {
	code := regexp.MustCompile(`P0\d\d`)
	find := func(text string, line *regexp.Regexp) map[string]bool {
		found := map[string]bool{}
		for l := range strings.Lines(text) {
			if line.MatchString(l) {
				for _, c := range code.FindAllString(l, -1) {
					found[c] = true
				}
			}
		}
		return found
	}
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	used := map[string]bool{}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range sources {
		if !strings.HasSuffix(f, "_test.go") {
			maps.Copy(used, find(read(f), regexp.MustCompile(`"P0\d\d"`)))
		}
	}
	comment := find(read("registry.go"), regexp.MustCompile(`^//\tP0`))
	table := find(read(filepath.Join("..", "docs", "registry.md")), regexp.MustCompile(`^\| P0`))
	if a, b := slices.Sorted(maps.Keys(comment)), slices.Sorted(maps.Keys(table)); !slices.Equal(a, b) {
		t.Errorf("the package's comment has %v, docs/registry.md has %v", a, b)
	}
	for c := range used {
		if !table[c] {
			t.Errorf("%s is in no table", c)
		}
	}
	if len(used) < 15 {
		t.Errorf("looked at %d codes only", len(used))
	}
}

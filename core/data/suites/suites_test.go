package suites

import (
	"slices"
	"strings"
	"testing"
)

func TestSuites(t *testing.T) {
	want := map[string]int{"swebench": 12, "swebench-dev": 6, "swebench-multilingual": 41, "multi-swebench": 39, "swebench-pro": 11, "swelancer": 1}
	all := All()
	if len(all) != len(want) || len(Names()) != len(want) {
		t.Fatalf("%d suites, want %d", len(all), len(want))
	}
	for _, s := range all {
		if len(s.Repositories) != want[s.Name] || s.About == "" {
			t.Errorf("%s (%s): %d repositories, want %d", s.Name, s.About, len(s.Repositories), want[s.Name])
		}
		if len(slices.Compact(slices.Clone(s.Repositories))) != len(s.Repositories) {
			t.Errorf("%s: a repository twice", s.Name)
		}
		for _, r := range s.Repositories {
			if strings.Count(r, "/") != 1 || r != strings.ToLower(r) {
				t.Errorf("%s: %q", s.Name, r)
			}
		}
		if got, ok := Named(s.Name); !ok || got.About != s.About {
			t.Errorf("%s is not found by its name", s.Name)
		}
	}
	if _, ok := Named("none"); ok {
		t.Error("a suite that is none")
	}
}

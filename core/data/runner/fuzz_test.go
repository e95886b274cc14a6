package runner

import (
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

func FuzzTable(f *testing.F) {
	f.Add(builtIn)
	f.Add("[[runner]]\nname = \"x\"\nsources = [\"[\"]\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := read("runners.toml", text)
		if err != nil {
			if diag.KindOf(err) != diag.KindConfig {
				t.Fatal(err)
			}
			return
		}
		files := []sdk.File{{Path: "pkg/a.py"}, {Path: "tests/test_a.py", Data: []byte("import unittest\n")}}
		for _, r := range table {
			r.Fits(files)
			r.Groups(files)
		}
	})
}

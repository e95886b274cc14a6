package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/valence-rl/valence/core/diag"
)

// FuzzEpisodes: an episodes file may be anything, compressed or torn; it gives episodes
// and then an error of the data.
func FuzzEpisodes(f *testing.F) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	whole := z.EncodeAll([]byte(`{"id":"a","score":1,"output":{"Changes":[{"Path":"x","Data":"eA=="}]}}`+"\n"), nil)
	f.Add(whole, false)
	f.Add(whole[:len(whole)-3], false)
	f.Add([]byte(`{"id":"a"}`+"\n"+`{"id":1}`), true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, pack bool) {
		if pack {
			data = z.EncodeAll(data, nil)
		}
		name := filepath.Join(dir, "e.episodes.jsonl.zst")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range ReadEpisodes(name) {
			if err != nil && diag.KindOf(err) != diag.KindData {
				t.Fatal(err)
			}
		}
	})
}

// FuzzRunDirectory: the small files of a run directory.
func FuzzRunDirectory(f *testing.F) {
	f.Add([]byte(`{"step":1}`))
	f.Add([]byte(`{"step":1}` + "\n" + `{"step":`))
	base := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		d := Dir(base)
		for _, name := range []string{"state.json", "swaps.jsonl", "steps/000001/metrics.json", "evals/000001-eval.json"} {
			p := filepath.Join(base, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, _, stateErr := d.State()
		_, stepsErr := d.Steps()
		_, _, evalErr := d.Eval(1, "eval")
		_, swapsErr := d.Swaps()
		for _, err := range []error{stateErr, stepsErr, evalErr, swapsErr} {
			if err != nil && diag.KindOf(err) != diag.KindData {
				t.Fatal(err)
			}
		}
	})
}

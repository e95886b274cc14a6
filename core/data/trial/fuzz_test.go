package trial

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/valence-rl/valence/core/diag"
)

// FuzzJournal: whatever a journal was when its process died, it opens, and what is kept
// from then on is there the next time.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"k":"a","v":1}` + "\n" + `{"k":"b","v":"x"}` + "\n" + `{"k":"c"`))
	f.Add([]byte("\n"))
	name := filepath.Join(f.TempDir(), "journal")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for want := range 2 {
			j, err := OpenJournal(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Recall(j, "fuzz: a key that nobody has", func() (int, error) { return want, nil })
			if err != nil && diag.KindOf(err) != diag.KindData || err == nil && got != 0 {
				t.Fatalf("%d, %v", got, err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

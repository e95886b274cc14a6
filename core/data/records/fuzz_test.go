package records

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// FuzzResume: whatever a process has left, writing goes on, or starts anew, or says what
// is wrong; a file that it finishes is one that can be read.
func FuzzResume(f *testing.F) {
	f.Add([]byte(`{"bytes":11,"records":1,"state":{}}`), []byte(`{"ID":"a"}`+"\n"+`{"ID":`))
	f.Add([]byte(`{"bytes":-1}`), []byte{})
	f.Add([]byte(`{"bytes":4}`), []byte("\x28\xb5\x2f\xfd"))
	path := filepath.Join(f.TempDir(), "r.jsonl")
	f.Fuzz(func(t *testing.T, at, part []byte) {
		for name, data := range map[string][]byte{cursorFile(path): at, partial(path): part} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		os.Remove(path)
		w, _, err := Create(path)
		if err != nil {
			if diag.KindOf(err) != diag.KindData {
				t.Fatal(err)
			}
			return
		}
		n := w.Records()
		if err := w.Append(&sdk.Record{ID: "fuzz: an ID that nobody has"}); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); err != nil || int64(len(got)) != n+1 {
			t.Fatalf("%d records, want %d: %v", len(got), n+1, err)
		}
	})
}

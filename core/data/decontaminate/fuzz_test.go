package decontaminate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/valence-rl/valence/core/diag"
)

func FuzzList(f *testing.F) {
	f.Add("git@github.com:acme/shop.git # ours\n\n0123456789abcdef0123456789abcdef01234567\n")
	name := filepath.Join(f.TempDir(), "list")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddList(New(), name); err != nil && diag.KindOf(err) != diag.KindData {
			t.Fatal(err)
		}
	})
}

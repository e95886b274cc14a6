package registry_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

// A plugin is looked at without a compiler, and not at all if it is not here.
func TestPeek(t *testing.T) {
	dir := t.TempDir()
	manifest := "name = \"words\"\nversion = \"0.1.0\"\nabi = 1\nroles = [\"judge\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "words.wasm")
	if err := os.WriteFile(file, registry.WithSection([]byte("\x00asm\x01\x00\x00\x00"), registry.ManifestSection, []byte(manifest)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	for _, ref := range []string{dir, file} {
		m, err := registry.Peek(ref, registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if m.Manifest.Name != "words" || m.Ref != ref {
			t.Errorf("%s: %+v", ref, m)
		}
	}
	if m, err := registry.Peek("words@0.1.0", registry.Options{Repository: "registry.invalid/team"}); m != nil || err != nil {
		t.Errorf("of a registry: %v, %v", m, err)
	}
	for ref, want := range map[string]string{t.TempDir(): "P001", "nowhere": "P001"} {
		if _, err := registry.Peek(ref, registry.Options{}); err == nil || diag.KindOf(err) != diag.KindPlugin || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", ref, err, want)
		}
	}
}

package checkout

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	dir := Find()
	if !Is(dir) {
		t.Fatalf("found %q", dir)
	}
	if _, err := os.Stat(filepath.Join(Python(dir), "pyproject.toml")); err != nil {
		t.Error(err)
	}
	if other := t.TempDir(); Is(other) || Python("") != "" {
		t.Errorf("%s is taken for the sources", other)
	}
}

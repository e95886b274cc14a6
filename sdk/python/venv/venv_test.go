package venv

import (
	"errors"
	"testing"
)

func TestBin(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Bin(t.Context(), ".."); !errors.Is(err, ErrNoPython) {
		t.Errorf("without Python: error %v", err)
	}
	if _, err := Bin(t.Context(), t.TempDir()); err == nil || errors.Is(err, ErrNoPython) {
		t.Errorf("a folder without an SDK: error %v", err)
	}
}

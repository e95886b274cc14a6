package main

import (
	"log/slog"
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox/local"
)

func TestMain(m *testing.M) {
	if local.Init() {
		return
	}
	os.Exit(m.Run())
}

// A small step is played like a large one.
func TestStep(t *testing.T) {
	t.Chdir("../../..") // where the plugins are
	s, err := play(t.Context(), 10, 4, slog.DiscardHandler)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
	if len(s.Failures) > 0 || s.Fates["trained"] != s.Tasks {
		t.Errorf("failures %v, groups %v", s.Failures, s.Fates)
	}
}

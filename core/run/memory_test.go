package run

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/sdk"
)

func TestPluginsHaveTheConfiguredMemory(t *testing.T) {
	limit := config.Size(32 << 20)
	s := &Setup{Config: &config.Config{Evaluate: config.Evaluate{Memory: &limit}}, plugins: newPool(), log: slog.New(slog.DiscardHandler)}
	var b Binding
	p, err := s.load(t.Context(), &b, "../host/testdata/wild", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.release()
	_, err = p.Evaluate(t.Context(), nil, &sdk.EvaluateRequest{Task: sdk.Task{Key: "wild/1", Prompt: "memory"}})
	if err == nil || !strings.Contains(err.Error(), "more than 32 MiB of memory wanted") {
		t.Error(err)
	}
}

package process

import (
	"context"
	"os"
	"testing"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/core/host/transporttest"
)

func TestConformance(t *testing.T) {
	program := build(t, "../testdata/wild")
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	transporttest.Run(t, transporttest.Subject{
		Nature: transporttest.Process,
		Open: func(ctx context.Context, memory int64) (transport.Transport, error) {
			return Open(ctx, Config{Command: []string{program}, Memory: memory})
		},
		Foreign: func(ctx context.Context) error {
			_, err := Open(ctx, Config{Command: []string{"/bin/sh", "-c", "echo '1|2|unix|socket|grpc|certificate'; read forever"}})
			return err
		},
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

package mine

import (
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

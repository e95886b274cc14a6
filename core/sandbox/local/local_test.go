package local

import (
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	Init()
	sandboxtest.Probe()
	os.Exit(m.Run())
}

func openDriver(t *testing.T) sandbox.Driver {
	t.Helper()
	d, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) { sandboxtest.Run(t, openDriver) }

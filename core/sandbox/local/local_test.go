package local

import (
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandboxtest.Probe()
	if dir := os.Getenv(hostDir); dir != "" {
		host(dir)
	}
	if os.Getenv(coverProc) != "" {
		hideProc()
	}
	if os.Getenv(refuseNamespaces) != "" {
		refuse()
	}
	os.Exit(m.Run())
}

// wantLevel, in the environment, is the isolation level that a test run must find.
const wantLevel = "VALENCE_TEST_LEVEL"

func openDriver(t *testing.T) sandbox.Driver {
	t.Helper()
	d, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	i := d.Isolation()
	if want := os.Getenv(wantLevel); want != "" && i.Level != want {
		t.Fatalf("level %s, want %s", i.Level, want)
	}
	return d
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, openDriver)
}

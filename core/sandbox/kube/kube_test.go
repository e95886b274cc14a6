package kube

import (
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

// kubeconfig, in the environment, is that of a cluster with the images below and the
// namespace valence; test/kube/run makes one.
const kubeconfig = "VALENCE_TEST_KUBECONFIG"

func TestMain(m *testing.M) {
	sandboxtest.Probe()
	os.Exit(m.Run())
}

// cluster skips a test where there is none, and gives the options for it.
func cluster(t *testing.T) Options {
	t.Helper()
	file := os.Getenv(kubeconfig)
	if file == "" {
		t.Skipf("it needs a cluster: run `make test-kube`, which makes one, or set %s", kubeconfig)
	}
	return Options{Kubeconfig: file, Image: "localhost/busybox:1", Tools: "localhost/valence-tools:1"}
}

func open(t *testing.T, o Options) *Driver {
	t.Helper()
	d, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestConformance(t *testing.T) {
	o := cluster(t)
	sandboxtest.Run(t, func(t *testing.T) sandbox.Driver { return open(t, o) })
}

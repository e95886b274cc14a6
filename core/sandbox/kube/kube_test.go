package kube

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
	"github.com/valence-rl/valence/sdk"
)

// kubeconfig, in the environment, is that of a cluster with the images below and the
// namespace valence; test/kube/run makes one.
const kubeconfig = "VALENCE_TEST_KUBECONFIG"

func TestMain(m *testing.M) {
	sandboxtest.Probe()
	if os.Getenv(host) != "" {
		beHost()
	}
	os.Exit(m.Run())
}

// cluster skips a test where there is none, and gives the options for it.
func cluster(t testing.TB) Options {
	t.Helper()
	file := os.Getenv(kubeconfig)
	if file == "" {
		t.Skipf("it needs a cluster: run `make test-kube`, which makes one, or set %s", kubeconfig)
	}
	return Options{Kubeconfig: file, Image: "localhost/busybox:1", Tools: "localhost/valence-tools:1"}
}

func open(t testing.TB, o Options) *Driver {
	t.Helper()
	d, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		leavesNothing(t, d)
	})
	return d
}

// leavesNothing looks for what a closed driver left.
func leavesNothing(t testing.TB, d *Driver) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	mine := metav1.ListOptions{LabelSelector: labelSession + "=" + d.session.name}
	pods, err := d.clients.writes.CoreV1().Pods(d.clients.namespace).List(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := d.clients.writes.CoreV1().ConfigMaps(d.clients.namespace).List(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items)+len(maps.Items) > 0 {
		t.Errorf("left in the cluster: %d pods, %d sessions", len(pods.Items), len(maps.Items))
	}
}

func change(path, text string) sdk.Change { return sdk.Change{Path: path, Data: []byte(text)} }

// The page on sandboxes says of pods what the driver says, which depends on the
// options alone; on a cluster the suite holds the driver to it.
func TestTable(t *testing.T) {
	says := func(o Options) sandbox.Isolation { return (&Driver{options: o}).Isolation() }
	sandboxtest.Table(t, "../../../docs/sandbox.md", map[string]sandbox.Isolation{
		"pod": says(Options{CPUShare: 10}), "pod, CPUs of its own": says(Options{CPUShare: 1}),
	})
}

func TestConformance(t *testing.T) {
	o := cluster(t)
	sandboxtest.Run(t, func(t *testing.T) sandbox.Driver { return open(t, o) })
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/valence-rl/valence/core/sandbox"
)

// onCluster skips a test where there is no cluster, and gives the settings that
// bring the quickstart's sandboxes there.
func onCluster(t *testing.T) (kubeconfig string, sets []string) {
	t.Helper()
	kubeconfig = os.Getenv("VALENCE_TEST_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("it needs a cluster: run `make test-kube`, which makes one, or set VALENCE_TEST_KUBECONFIG")
	}
	return kubeconfig, []string{"sandbox.driver=kube", "sandbox.kube.kubeconfig=" + kubeconfig,
		"sandbox.kube.image=localhost/python:1", "sandbox.kube.tools=localhost/valence-tools:1", "sandbox.kube.cpu_share=20",
		"sandbox.memory=64MiB", "sandbox.disk=32MiB"}
}

// left lists the pods and sessions in the cluster.
func left(t *testing.T, kubeconfig string) (names []string) {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := set.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: "valence.dev/session"})
	if err != nil {
		t.Fatal(err)
	}
	maps, err := set.CoreV1().ConfigMaps(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: "valence.dev/session"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil {
			names = append(names, "pod "+p.Name)
		}
	}
	for _, m := range maps.Items {
		if m.DeletionTimestamp == nil {
			names = append(names, "session "+m.Name)
		}
	}
	return names
}

// TestKubeTrain trains a step on real pods: every episode is scored, none of them is
// lost to the cluster, and nothing stays there.
func TestKubeTrain(t *testing.T) {
	kubeconfig, sets := onCluster(t)
	adopt(t)
	sets = append(sets, "run.steps=1", "grpo.groups_per_step=2", "grpo.group_size=2", "eval.tasks=1",
		"source.0.count=4", "source.1.count=4", "source.2.count=2", "source.3.count=2", "source.4.count=1", "source.5.count=1", "rollout.concurrency=6")
	q := newQuickstart(t, sets...)
	q.run(t, 0, "train")
	var i sandbox.Isolation
	b, err := os.ReadFile(filepath.Join(string(q.folder()), "isolation.json"))
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	if err != nil || i.Driver != "kube" || i.Level != "pod" {
		t.Errorf("isolation.json: %s, %v", b, err)
	}
	got := q.outcome(t, 1)
	if names := left(t, kubeconfig); len(names) > 0 {
		t.Errorf("left in the cluster: %v", names)
	}
	q.leavesNothing(t)

	// Where commands ran makes no difference.
	here := newQuickstart(t, append(sets, "sandbox.driver=local")...)
	here.run(t, 0, "train")
	if want := here.outcome(t, 1); got != want {
		t.Errorf("on the cluster %+v, with local sandboxes %+v", got, want)
	}
}

// TestKubeDoctor: doctor says what pods get, and what is wrong with a cluster.
func TestKubeDoctor(t *testing.T) {
	kubeconfig, sets := onCluster(t)
	adopt(t)
	for _, c := range []struct {
		set    string
		code   int
		stdout string
	}{
		{"run.seed=1", 0, "kube: pod; limits on memory, cpu, output"},
		{"sandbox.kube.image=localhost/busybox:1", 12, "has no Python 3.8 or newer"},
		{"sandbox.kube.tools=localhost/busybox:1", 12, "valence-toolserver"},
		{"sandbox.kube.namespace=nowhere", 12, "kubectl apply -f deploy/namespace.yaml"},
		{"sandbox.kube.context=nowhere", 12, "name a kubeconfig"},
		{"sandbox.kube.runtime_class=nowhere", 12, "RuntimeClass \"nowhere\" not found"},
	} {
		q := newQuickstart(t, append(sets, c.set)...)
		args := []string{"doctor", "-c", "examples/quickstart/run.toml"}
		for _, s := range q.sets {
			args = append(args, "--set", s)
		}
		p := q.plain(t, c.code, args...)
		if !strings.Contains(p.stdout.String(), c.stdout) {
			t.Errorf("%s: want %q in\n%s", c.set, c.stdout, p.stdout.String())
		}
	}
	if names := left(t, kubeconfig); len(names) > 0 {
		t.Errorf("left in the cluster: %v", names)
	}
}

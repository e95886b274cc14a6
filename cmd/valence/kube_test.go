package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
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
		"sandbox.image=localhost/python:1", "sandbox.kube.tools=localhost/valence-tools:1", "sandbox.kube.cpu_share=20",
		"sandbox.memory=64MiB", "sandbox.disk=32MiB"}
}

// left lists the pods and sessions in the cluster.
func left(t *testing.T, kubeconfig string) (names []string) {
	t.Helper()
	set := clientset(t, kubeconfig)
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

// TestKubeTrain trains a step on real pods, once left alone and once while pods are
// deleted: every episode is scored, both times as with local sandboxes, and nothing stays.
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
	local := slices.DeleteFunc(slices.Clone(sets), func(s string) bool { return strings.HasPrefix(s, "sandbox.image=") })
	here := newQuickstart(t, append(local, "sandbox.driver=local")...)
	here.run(t, 0, "train")
	want := here.outcome(t, 1)
	if got != want {
		t.Errorf("on the cluster %+v, with local sandboxes %+v", got, want)
	}

	hurt := newQuickstart(t, append(sets, "async.retries=5")...)
	deleted := deletePods(t, kubeconfig)
	hurt.run(t, 0, "train")
	if n := deleted(); n < 5 {
		t.Errorf("%d pods were deleted, want more", n)
	}
	if got := hurt.outcome(t, 1); got != want {
		t.Errorf("while pods were deleted %+v, with local sandboxes %+v", got, want)
	}
	if names := left(t, kubeconfig); len(names) > 0 {
		t.Errorf("left in the cluster: %v", names)
	}
}

// deletePods deletes every seventh pod that comes to run, but for the first ones,
// with which a run looks at its cluster. What it gives ends that and counts them.
func deletePods(t *testing.T, kubeconfig string) (stop func() int) {
	t.Helper()
	pods := clientset(t, kubeconfig).CoreV1().Pods("valence")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "valence.dev/session"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	go func() {
		seen, deleted, none := map[string]bool{}, 0, int64(0)
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok || seen[p.Name] || p.Status.Phase != corev1.PodRunning {
				continue
			}
			seen[p.Name] = true
			if n := len(seen); n > 3 && n%7 == 0 && pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}) == nil {
				deleted++
			}
		}
		done <- deleted
	}()
	return func() int {
		cancel()
		w.Stop()
		return <-done
	}
}

func clientset(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestKubeInterrupt: a run that is interrupted leaves nothing in the cluster, while
// it looks at it as well as later.
func TestKubeInterrupt(t *testing.T) {
	kubeconfig, sets := onCluster(t)
	adopt(t)
	for _, count := range []int{2, 6} { // the session and pods
		q := newQuickstart(t, append(sets, "sandbox.kube.warm=3")...)
		p := q.command(t.Context(), t, "train")
		q.start(t, p)
		for len(left(t, kubeconfig)) < count {
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		p.end(t, 130)
		if names := left(t, kubeconfig); len(names) > 0 {
			t.Errorf("left in the cluster: %v", names)
		}
	}
}

// TestKubeJob runs the host itself within the cluster, by the Job and the account of
// deploy/. The test cluster's pods reach nothing, so it shares its node's network,
// which the namespace has to allow meanwhile.
func TestKubeJob(t *testing.T) {
	kubeconfig, _ := onCluster(t)
	machine := os.Getenv("VALENCE_TEST_CLUSTER")
	if machine == "" {
		t.Skip("it brings an image to the node, which only `make test-kube` lends")
	}
	images := exec.Command("../../test/kube/images", "host")
	images.Env = append(os.Environ(), "RUN="+machine)
	if out, err := images.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	set, ctx := clientset(t, kubeconfig), t.Context()
	enforce := func(level string) {
		change := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`
		if _, err := set.CoreV1().Namespaces().Patch(context.WithoutCancel(ctx), "valence", types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	enforce("privileged")
	defer enforce("baseline")
	var job batchv1.Job
	for _, file := range []string{"namespace.yaml", "quota.yaml", "rbac.yaml", "network-policy.yaml", "job.yaml"} {
		b, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(b), "\n---\n") {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch v := object.(type) {
			case *corev1.Namespace:
				_, err = set.CoreV1().Namespaces().Create(ctx, v, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			case *corev1.ResourceQuota:
				_, err = set.CoreV1().ResourceQuotas(v.Namespace).Create(ctx, v, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			case *corev1.ServiceAccount:
				_, err = set.CoreV1().ServiceAccounts(v.Namespace).Create(ctx, v, metav1.CreateOptions{})
			case *rbacv1.Role:
				_, err = set.RbacV1().Roles(v.Namespace).Create(ctx, v, metav1.CreateOptions{})
			case *rbacv1.RoleBinding:
				_, err = set.RbacV1().RoleBindings(v.Namespace).Create(ctx, v, metav1.CreateOptions{})
			case *networkingv1.NetworkPolicy:
				_, err = set.NetworkingV1().NetworkPolicies(v.Namespace).Create(ctx, v, metav1.CreateOptions{})
			case *batchv1.Job:
				job = *v
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	pod := &job.Spec.Template.Spec
	pod.HostNetwork = true
	pod.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	host := &pod.Containers[0]
	host.Image, host.Command, host.WorkingDir = "localhost/valence:1", []string{"/usr/local/bin/valence"}, "/usr/local/share/valence"
	host.Args = []string{"train", "-c", "examples/quickstart/run.toml", "--set", "run.dir=/runs", "--set", "sandbox.driver=kube",
		"--set", "sandbox.image=localhost/python:1", "--set", "sandbox.kube.tools=localhost/valence-tools:1", "--set", "sandbox.kube.cpu_share=20",
		"--set", "sandbox.memory=64MiB", "--set", "sandbox.disk=32MiB"}
	for _, s := range append(small, "run.steps=1", "grpo.groups_per_step=1", "grpo.group_size=2", "eval.tasks=1",
		"source.0.count=2", "source.1.count=2", "source.2.count=1", "source.3.count=1", "source.4.count=1", "source.5.count=1") {
		host.Args = append(host.Args, "--set", s)
	}
	host.Env = append(host.Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: address.Hostname()}, corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: address.Port()})
	host.Resources = corev1.ResourceRequirements{}
	none := int32(0)
	job.Spec.BackoffLimit = &none
	jobs := set.BatchV1().Jobs("valence")
	if _, err := jobs.Create(ctx, &job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	background := metav1.DeletePropagationBackground
	defer jobs.Delete(context.WithoutCancel(ctx), job.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	w, err := jobs.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if j, ok := e.Object.(*batchv1.Job); ok && j.Status.Succeeded+j.Status.Failed > 0 {
			if j.Status.Succeeded == 0 {
				pods, _ := set.CoreV1().Pods("valence").List(ctx, metav1.ListOptions{LabelSelector: "valence.dev/role=host"})
				for _, p := range pods.Items {
					log, _ := set.CoreV1().Pods("valence").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
					t.Errorf("%s\n%s", p.Status.Message, log)
				}
			}
			break
		}
	}
	if names := left(t, kubeconfig); len(names) > 0 {
		t.Errorf("left in the cluster: %v", names)
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
		{"sandbox.image=localhost/busybox:1", 12, "has no Python 3.8 or newer"},
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

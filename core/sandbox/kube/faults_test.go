package kube

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
)

// machine is the cluster of test/kube/run, whose parts can be ended and started again.
type machine string

func ofThisMachine(t *testing.T) machine {
	t.Helper()
	dir := os.Getenv("VALENCE_TEST_CLUSTER")
	if dir == "" {
		t.Skip("it ends parts of the cluster, which only `make test-kube` lends")
	}
	return machine(dir)
}

func (m machine) signal(t *testing.T, part string, s syscall.Signal) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(string(m), part+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err == nil {
		err = syscall.Kill(pid, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	for s == syscall.SIGKILL && syscall.Kill(pid, 0) == nil && t.Context().Err() == nil {
	}
}

func (m machine) start(t *testing.T, part string) {
	t.Helper()
	cmd := exec.Command("../../../test/kube/start", part)
	cmd.Env = append(os.Environ(), "RUN="+string(m))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// begun gives an error and a result of a command that b runs, once it has begun.
func begun(t *testing.T, b *box, line string, timeout time.Duration) (ended func() (sandbox.Result, error)) {
	t.Helper()
	var r sandbox.Result
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = b.Exec(t.Context(), sandbox.Command{Shell: "touch begun; " + line, Timeout: timeout})
	}()
	for {
		if _, err := b.Read(t.Context(), "begun", 0); err == nil {
			break
		} else if diag.KindOf(err) == diag.KindSandbox || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	return func() (sandbox.Result, error) { <-done; return r, err }
}

// lost asks for the error of a sandbox that is gone, with this word in it.
func lost(t *testing.T, b *box, err error, word string) {
	t.Helper()
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), word) {
		t.Errorf("want a failed sandbox and %q, got %v", word, err)
	}
	if _, err := b.Exec(t.Context(), sandbox.Command{Shell: "true"}); diag.KindOf(err) != diag.KindSandbox {
		t.Errorf("a command after the end: %v", err)
	}
}

// works asks for an answer.
func works(t testing.TB, b *box) {
	t.Helper()
	if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo alive"}); err != nil || string(r.Output) != "alive\n" {
		t.Errorf("%q, %v", r.Output, err)
	}
}

func TestToolServerKilled(t *testing.T) {
	m, d := ofThisMachine(t), open(t, cluster(t))
	b := create(t, d)
	ended := begun(t, b, "sleep 1000", time.Hour)
	object, _, _ := d.pods.look(b.object.UID)
	_, id, _ := strings.Cut(object.Status.ContainerStatuses[0].ContainerID, "//")
	out, err := exec.Command("ctr", "-a", filepath.Join(string(m), "c", "containerd.sock"), "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err = ended()
	lost(t, b, err, "exit code 137")
}

// TestAPIServerRestarted: commands that run and sandboxes that are being made outlast
// it, and nothing is done twice.
func TestAPIServerRestarted(t *testing.T) {
	m := ofThisMachine(t)
	o := cluster(t)
	o.Warm = 2
	d := open(t, o)
	b := create(t, d)
	ended := begun(t, b, "echo ran >> runs; while [ ! -e go ]; do :; done; cat runs", time.Hour)
	m.signal(t, "apiserver", syscall.SIGKILL)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			b, err := d.Create(t.Context(), sandbox.Spec{Name: t.Name()})
			if err != nil {
				t.Error(err)
				return
			}
			works(t, b.(*box))
		})
	}
	m.start(t, "apiserver")
	all.Wait()
	if err := b.Write(t.Context(), change("go", "")); err != nil {
		t.Fatal(err)
	}
	if r, err := ended(); err != nil || string(r.Output) != "ran\n" {
		t.Errorf("a command that ran meanwhile: %q, %v", r.Output, err)
	}
}

// TestNodeSilent: of a node that hangs a command ends some seconds after its own deadline.
func TestNodeSilent(t *testing.T) {
	m, d := ofThisMachine(t), open(t, cluster(t))
	b := create(t, d)
	m.signal(t, "kubelet", syscall.SIGSTOP)
	resume := sync.OnceFunc(func() { m.signal(t, "kubelet", syscall.SIGCONT) })
	defer resume()
	b.Client.Cut()
	_, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo never", Timeout: time.Second})
	lost(t, b, err, "did not answer")
	resume()
	works(t, create(t, d))
}

// TestNodeDeleted: a sandbox goes with its node, and others can be made once there is one.
func TestNodeDeleted(t *testing.T) {
	m, d := ofThisMachine(t), open(t, cluster(t))
	d.silence = 10 * time.Second
	b := create(t, d)
	object, _, _ := d.pods.look(b.object.UID)
	ended := begun(t, b, "sleep 1000", time.Hour)
	m.signal(t, "kubelet", syscall.SIGKILL)
	nodes := d.clients.writes.CoreV1().Nodes()
	if err := nodes.Delete(t.Context(), object.Spec.NodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := ended()
	lost(t, b, err, "gone")
	t.Log(err)
	m.start(t, "kubelet")
	works(t, create(t, d))
}

// TestEvicted: a sandbox that writes more than its limit is ended by its node, which
// is a failed sandbox and no outcome of the command.
func TestEvicted(t *testing.T) {
	d := open(t, cluster(t))
	b, err := d.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{Disk: 8 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = begun(t, b.(*box), "dd if=/dev/zero of=big bs=1M count=64; sleep 1000", time.Hour)()
	lost(t, b.(*box), err, "taken by the cluster")
}

// TestQuota: at the quota a sandbox waits until another one goes, or says why it does not come.
func TestQuota(t *testing.T) {
	o := cluster(t)
	o.Defaults.Create = 20 * time.Second
	d := open(t, o)
	b := create(t, d)
	quotas := d.clients.writes.CoreV1().ResourceQuotas(d.clients.namespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer quotas.Delete(context.WithoutCancel(t.Context()), "small", metav1.DeleteOptions{})
	for {
		q, err := quotas.Get(t.Context(), "small", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if used, ok := q.Status.Used[corev1.ResourcePods]; ok && used.Value() > 0 {
			break
		}
	}
	_, err = d.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{Create: 3 * time.Second}})
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("beyond the quota: %v", err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := d.Create(t.Context(), sandbox.Spec{})
		waits <- err
	}()
	b.Close()
	if err := <-waits; err != nil {
		t.Errorf("after another one went: %v", err)
	}
}

// TestSessionDeleted: whoever deletes the session ends every sandbox, and the driver says so.
func TestSessionDeleted(t *testing.T) {
	o := cluster(t)
	o.Lease = 2 * time.Second
	d := open(t, o)
	b := create(t, d)
	ended := begun(t, b, "sleep 1000", time.Hour)
	if err := d.session.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := ended()
	lost(t, b, err, "gone")
	for {
		_, err := d.Create(t.Context(), sandbox.Spec{})
		if diag.KindOf(err) != diag.KindSandbox {
			t.Fatalf("a sandbox without a session: %v", err)
		}
		if strings.Contains(err.Error(), "session was deleted") {
			break
		}
	}
}

// host, in the environment, makes this program a host that makes sandboxes until it is killed.
const host = "VALENCE_TEST_HOST"

func beHost() {
	o := Options{Kubeconfig: os.Getenv(kubeconfig), Image: "localhost/busybox:1", Tools: "localhost/valence-tools:1", Lease: 2 * time.Second, Warm: 2}
	d, err := New(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for range 3 {
		if _, err := d.Create(context.Background(), sandbox.Spec{}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println(d.session.name)
	for {
		d.Create(context.Background(), sandbox.Spec{})
	}
}

// TestHostKilled: what a host leaves that was killed in its work is deleted by another one.
func TestHostKilled(t *testing.T) {
	o := cluster(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), host+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	name, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if name = strings.TrimSpace(name); !strings.HasPrefix(name, "valence-") {
		t.Fatalf("the host said %q", name)
	}
	o.Lease = 2 * time.Second
	d := open(t, o)
	dead := metav1.ListOptions{LabelSelector: labelSession + "=" + name}
	for left := 1; left > 0; {
		pods, err := d.clients.writes.CoreV1().Pods(d.clients.namespace).List(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		left = len(pods.Items)
	}
	if _, err := d.clients.writes.CoreV1().ConfigMaps(d.clients.namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its session: %v", err)
	}
	works(t, create(t, d))
}

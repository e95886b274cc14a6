package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

func create(t testing.TB, d *Driver) *box {
	t.Helper()
	b, err := d.Create(t.Context(), sandbox.Spec{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*box)
}

// TestStreamCut: a command goes on while its stream is replaced, and is run once.
func TestStreamCut(t *testing.T) {
	d := open(t, cluster(t))
	b := create(t, d)
	done := make(chan sandbox.Result, 1)
	go func() {
		r, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo ran >> runs; mkfifo go; touch started; cat go; cat runs"})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	for {
		if _, err := b.Read(t.Context(), "started", 0); err == nil {
			break
		}
	}
	for range 3 {
		b.Client.Cut()
		if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo back"}); err != nil || string(r.Output) != "back\n" {
			t.Fatalf("after a cut: %q, %v", r.Output, err)
		}
	}
	if _, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo open > go"}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; string(r.Output) != "open\nran\n" {
		t.Errorf("got %q", r.Output)
	}
}

// TestPodDeleted: whoever deletes a pod makes its sandbox fail, and nothing hang.
func TestPodDeleted(t *testing.T) {
	d := open(t, cluster(t))
	b := create(t, d)
	none := int64(0)
	go func() {
		for {
			if _, err := b.Read(t.Context(), "started", 0); err == nil || t.Context().Err() != nil {
				break
			}
		}
		d.clients.writes.CoreV1().Pods(d.clients.namespace).Delete(context.Background(), b.object.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
	}()
	_, err := b.Exec(t.Context(), sandbox.Command{Shell: "touch started; sleep 1000", Timeout: time.Hour})
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("got %v", err)
	}
}

// TestImageMissing: it is an error long before the deadline, and names the image.
func TestImageMissing(t *testing.T) {
	o := cluster(t)
	o.Image = "localhost/none:1"
	_, err := New(t.Context(), o)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "localhost/none:1") {
		t.Errorf("a missing image: %v", err)
	}
}

// TestImageWorkspace: a workspace may be what its image has, with files and patches over it.
func TestImageWorkspace(t *testing.T) {
	d := open(t, cluster(t))
	on := func(w sdk.Workspace) (sandbox.Sandbox, error) {
		w.Image = "localhost/app:1"
		return d.Create(t.Context(), sandbox.Spec{Name: t.Name(), Workspace: w})
	}
	b, err := on(sdk.Workspace{
		Files:   []sdk.File{{Path: "more", Data: []byte("laid\n")}},
		Patches: []string{"--- a/changed\n+++ b/changed\n@@ -1 +1 @@\n-old\n+new\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Exec(t.Context(), sandbox.Command{Shell: "pwd; cat kept changed more; find . -name .git; echo three >> kept"})
	if want := "/app\none\ntwo\nnew\nlaid\n"; err != nil || string(r.Output) != want {
		t.Errorf("got %q, %v, want %q", r.Output, err, want)
	}
	changes, err := b.Diff(t.Context(), 0)
	if err != nil || len(changes) != 1 || changes[0].Path != "kept" {
		t.Errorf("what commands changed: %v, %v", changes, err)
	}
	_, err = on(sdk.Workspace{Patches: []string{"--- a/changed\n+++ b/changed\n@@ -1 +1 @@\n-else\n+new\n"}})
	if diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), "changed") {
		t.Errorf("a patch of another file: %v", err)
	}
}

// TestReach: where pods reach something the driver refuses.
func TestReach(t *testing.T) {
	o := cluster(t)
	d := open(t, o)
	b := create(t, d)
	if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "(while :; do nc -l -p 7777; done) >/dev/null 2>&1 </dev/null & echo on"}); err != nil || string(r.Output) != "on\n" {
		t.Fatalf("%q, %v", r.Output, err)
	}
	object, _, _ := d.pods.look(b.object.UID)
	o.Reach = []string{"tcp/" + object.Status.PodIP + ":7777"}
	_, err := New(t.Context(), o)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), object.Status.PodIP) {
		t.Errorf("a network that is open: %v", err)
	}
}

// TestWarm: sandboxes come from the pool, and the pool is filled again.
func TestWarm(t *testing.T) {
	o := cluster(t)
	o.Warm = 3
	d := open(t, o)
	first := create(t, d)
	p := d.pools[kindOf(o.Image, first.Limits)]
	ready := func() (names []string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, object := range p.ready {
			names = append(names, object.Name)
		}
		return names
	}
	for range 4 {
		var names []string
		for len(names) == 0 {
			if _, err := first.Exec(t.Context(), sandbox.Command{Shell: "true"}); err != nil {
				t.Fatal(err)
			}
			names = ready()
		}
		b := create(t, d)
		if b.object.Name != names[0] || b.object.Labels[labelPool] != "claimed" {
			t.Errorf("got pod %s, labelled %v, while %v were ready", b.object.Name, b.object.Labels, names)
		}
		if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "ls -A; echo x > left"}); err != nil || len(r.Output) > 0 {
			t.Fatalf("a used sandbox: %q, %v", r.Output, err)
		}
		b.Close()
	}
}

// TestGreedy: in the class Guaranteed a command that takes too much memory, by
// however many processes, ends itself and not its sandbox.
func TestGreedy(t *testing.T) {
	o := cluster(t)
	o.CPUShare = 1
	o.Defaults = sandbox.Limits{CPUs: 0.9, Memory: 64 << 20}
	d := open(t, o)
	b := create(t, d)
	object, _, _ := d.pods.look(b.object.UID)
	if object.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("class %s", object.Status.QOSClass)
	}
	_, err := b.Exec(t.Context(), sandbox.Command{Shell: "for i in $(seq 50); do (head -c 4000000 /dev/zero | tail -c 4000000 | sleep 2) & done; wait", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo alive"}); err != nil || string(r.Output) != "alive\n" {
		t.Errorf("%q, %v", r.Output, err)
	}
}

// TestSweep: what a dead host left is deleted by the next one, and nothing else.
func TestSweep(t *testing.T) {
	o := cluster(t)
	o.Lease = 2 * time.Second
	dead := open(t, o)
	b := create(t, dead)
	dead.stop() // as if the host were dead: nothing is renewed any more
	living := open(t, o)
	mine := create(t, living)
	pods := living.clients.writes.CoreV1().Pods(living.clients.namespace)
	for {
		_, err := pods.Get(t.Context(), b.object.Name, metav1.GetOptions{})
		if err != nil {
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if r, err := mine.Exec(t.Context(), sandbox.Command{Shell: "echo alive"}); err != nil || string(r.Output) != "alive\n" {
		t.Errorf("the living host's sandbox: %q, %v", r.Output, err)
	}
}

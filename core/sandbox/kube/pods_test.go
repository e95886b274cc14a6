package kube

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pending(reason, message string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{Image: "i", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}}
}

// TestStuck: a registry that cannot be asked is waited for, one that refuses is not.
func TestStuck(t *testing.T) {
	for _, c := range []struct {
		reason, message string
		want            bool
	}{
		{"PodInitializing", "", false},
		{"ErrImagePull", "dial tcp 10.0.0.1:443: connect: connection refused", false},
		{"ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: dial tcp 10.0.0.1:443: connect: connection refused`, false},
		{"ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: unexpected status 503 Service Unavailable`, false},
		{"ErrImagePull", "rpc error: code = NotFound desc = failed to pull", true},
		{"ErrImagePull", "failed with status code [manifests 1]: 401 Unauthorized", true},
		{"ErrImagePull", "something new", false},
		{"ImagePullBackOff", "something new", true},
		{"InvalidImageName", "", true},
		{"CreateContainerError", "", true},
	} {
		if got := stuck(pending(c.reason, c.message)) != nil; got != c.want {
			t.Errorf("%s: %s: stuck %t, want %t", c.reason, c.message, got, c.want)
		}
	}
}

// TestTaken: only what the cluster did is a reason to make another pod.
func TestTaken(t *testing.T) {
	over := func(phase corev1.PodPhase, reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: phase, Reason: reason}}
	}
	now := metav1.Now()
	for _, c := range []struct {
		name   string
		object *corev1.Pod
		gone   bool
		want   bool
	}{
		{"evicted", over(corev1.PodFailed, "Evicted"), false, true},
		{"not admitted", over(corev1.PodFailed, "OutOfcpu"), false, true},
		{"deleted", over(corev1.PodRunning, ""), true, true},
		{"being deleted", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, false, true},
		{"told to end", over(corev1.PodSucceeded, ""), false, true},
		{"its program failed", over(corev1.PodFailed, ""), false, false},
		{"out of time", over(corev1.PodFailed, "DeadlineExceeded"), false, false},
	} {
		err := ended(c.object, c.gone)
		if err == nil || errors.Is(err, errTaken) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := ended(over(corev1.PodRunning, ""), false); err != nil {
		t.Errorf("a pod that runs: %v", err)
	}
}

// TestForget: of a deleted pod nothing stays, whichever comes first, the watch or the
// answer to the deletion.
func TestForget(t *testing.T) {
	object := func(id types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: id}} }
	p := &pods{known: map[types.UID]*pod{}}
	p.set(object("a"), false)
	p.set(object("a"), true)
	if _, gone, _ := p.look("a"); !gone {
		t.Error("its end is not known")
	}
	p.forget("a")

	p.set(object("b"), false)
	p.forget("b")
	p.set(object("b"), false) // the watch lags behind
	p.set(object("b"), true)

	p.forget("c") // the watch has not shown it yet
	p.set(object("c"), false)
	p.set(object("c"), true)
	if len(p.known) > 0 {
		t.Errorf("%d are still known", len(p.known))
	}
}

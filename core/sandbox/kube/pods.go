package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// pods knows the state of every pod of the session by one watch, whatever their
// number, and tells those who wait for one of them.
type pods struct {
	mu    sync.Mutex
	known map[types.UID]*pod
}

// pod is what is known of one.
type pod struct {
	object    *corev1.Pod   // nil: the watch has not shown it yet
	gone      bool          // it was deleted
	forgotten bool          // nobody will ask again; it is kept until the watch shows its end
	changed   chan struct{} // closed and replaced when any of this changes
}

// watchPods begins the watch, which ends with ctx, and returns once it is in step.
func watchPods(ctx context.Context, c *clients, session string, log *slog.Logger) (*pods, error) {
	p := &pods{known: map[types.UID]*pod{}}
	lw := cache.NewFilteredListWatchFromClient(c.watches.CoreV1().RESTClient(), "pods", c.namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = labelSession + "=" + session })
	informer := cache.NewSharedInformer(lw, &corev1.Pod{}, 0)
	err := informer.SetTransform(func(o any) (any, error) {
		if p, ok := o.(*corev1.Pod); ok {
			slim(p)
		}
		return o, nil
	})
	if err != nil {
		return nil, err
	}
	err = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		log.Warn("the watch of the session's pods broke off; it is begun again", "cause", err)
	})
	if err != nil {
		return nil, err
	}
	set := func(o any, gone bool) {
		if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = d.Obj
		}
		if object, ok := o.(*corev1.Pod); ok {
			p.set(object, gone)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o, false) },
		UpdateFunc: func(_, o any) { set(o, false) },
		DeleteFunc: func(o any) { set(o, true) },
	})
	if err != nil {
		return nil, err
	}
	go informer.Run(ctx.Done())
	late, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if !cache.WaitForCacheSync(late.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watch the session's pods: no answer within a minute")
	}
	return p, nil
}

func (p *pods) entry(id types.UID) *pod {
	e := p.known[id]
	if e == nil {
		e = &pod{changed: make(chan struct{})}
		p.known[id] = e
	}
	return e
}

func (p *pods) set(object *corev1.Pod, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entry(object.UID)
	if e.forgotten {
		if gone {
			delete(p.known, object.UID)
		}
		return
	}
	e.object, e.gone = object, gone
	close(e.changed)
	e.changed = make(chan struct{})
}

// look gives what is known of a pod, and a channel that is closed when that changes.
func (p *pods) look(id types.UID) (object *corev1.Pod, gone bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entry(id)
	return e.object, e.gone, e.changed
}

// forget is for deleted pods that nobody will ask about again.
func (p *pods) forget(id types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.entry(id); e.gone {
		delete(p.known, id)
	} else {
		e.object, e.forgotten = nil, true
	}
}

// slim drops what nobody asks for from a pod that is kept: three quarters of it.
func slim(p *corev1.Pod) {
	p.ManagedFields, p.OwnerReferences = nil, nil
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
}

// running waits until the pod's container runs. It fails as soon as it never will.
func (p *pods) running(ctx context.Context, id types.UID) (*corev1.Pod, error) {
	for {
		object, gone, changed := p.look(id)
		if err := ended(object, gone); err != nil {
			return nil, err
		}
		if object != nil {
			if object.Status.Phase == corev1.PodRunning {
				return object, nil
			}
			if err := stuck(object); err != nil {
				return nil, err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s", context.Cause(ctx), progress(object))
		}
	}
}

// errTaken is in the errors of pods that ended through no fault of their own: the
// cluster took them, and another one may fare better.
var errTaken = errors.New("taken by the cluster")

// ended is why a pod is over, or nil.
func ended(object *corev1.Pod, gone bool) error {
	switch {
	case object != nil && (object.Status.Phase == corev1.PodFailed || object.Status.Phase == corev1.PodSucceeded):
		// The first process never ends by itself: where it ended well it was told to,
		// which an eviction does before it says so.
		if taken[object.Status.Reason] || object.Status.Phase == corev1.PodSucceeded {
			return fmt.Errorf("its pod was %w: %s", errTaken, reason(object))
		}
		return fmt.Errorf("its pod ended: %s", reason(object))
	case gone:
		return fmt.Errorf("its pod was %w: it was deleted", errTaken)
	case object != nil && object.DeletionTimestamp != nil:
		return fmt.Errorf("its pod was %w: it is being deleted", errTaken)
	}
	return nil
}

// taken are reasons of a node to end a pod, or not to admit it: two hosts' pods may
// have been promised the same room.
var taken = map[string]bool{
	"Evicted": true, "NodeLost": true, "NodeShutdown": true, "Terminated": true, "Shutdown": true, "Preempting": true, "NodeAffinity": true,
	"OutOfcpu": true, "OutOfmemory": true, "OutOfpods": true, "OutOfephemeral-storage": true, "UnexpectedAdmissionError": true,
}

// reason puts what the pod's status says of its end into a line.
func reason(object *corev1.Pod) string {
	text := string(object.Status.Phase)
	if object.Status.Reason != "" {
		text = object.Status.Reason
	}
	if object.Status.Message != "" {
		text += ": " + object.Status.Message
	}
	for _, list := range [][]corev1.ContainerStatus{object.Status.InitContainerStatuses, object.Status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || t.Reason == "OOMKilled") {
				text += fmt.Sprintf("; container %s: %s, exit code %d %s", c.Name, t.Reason, t.ExitCode, t.Message)
			}
		}
	}
	return text
}

// hopeless are the reasons why a container waits that no waiting mends.
var hopeless = map[string]bool{
	"InvalidImageName": true, "ErrImageNeverPull": true, "CreateContainerConfigError": true,
	"CreateContainerError": true, "RunContainerError": true, "CrashLoopBackOff": true,
}

// stuck is why a pod will never run, or nil.
func stuck(object *corev1.Pod) error {
	for _, list := range [][]corev1.ContainerStatus{object.Status.InitContainerStatuses, object.Status.ContainerStatuses} {
		for _, c := range list {
			w := c.State.Waiting
			if w == nil {
				continue
			}
			over := hopeless[w.Reason]
			switch w.Reason {
			case "ErrImagePull": // the kubelet tries again
				over = said(w.Message, refusals)
			case "ImagePullBackOff":
				over = !said(w.Message, silences)
			}
			if over {
				return fmt.Errorf("image %s: %s: %s", c.Image, w.Reason, w.Message)
			}
		}
	}
	return nil
}

// Why a pull failed has no code, just the node's words. Refusals are a registry's
// answer; silences mean that it could not be asked, which may be otherwise later.
var (
	refusals = []string{"not found", "NotFound", "manifest unknown", "401", "403", "denied", "unauthorized", "no match for platform"}
	silences = []string{"connection refused", "connection reset", "timeout", "no such host", "server misbehaving", "network is unreachable",
		"no route to host", "unexpected EOF", "500 Internal", "502 Bad", "503 Service", "504 Gateway", "429 Too"}
)

func said(message string, any []string) bool {
	return slices.ContainsFunc(any, func(s string) bool { return strings.Contains(message, s) })
}

// progress says how far a pod has come.
func progress(object *corev1.Pod) string {
	if object == nil {
		return "the cluster has not shown its pod yet"
	}
	for _, c := range object.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "its pod waits for a node: " + c.Message
		}
	}
	for _, list := range [][]corev1.ContainerStatus{object.Status.InitContainerStatuses, object.Status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
				return fmt.Sprintf("container %s waits: %s %s", c.Name, w.Reason, w.Message)
			}
		}
	}
	return "its pod is " + string(object.Status.Phase) + " on node " + object.Spec.NodeName
}

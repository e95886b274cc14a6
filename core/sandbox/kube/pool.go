package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pool keeps pods of one kind ready. A pod that was taken never comes back.
type pool struct {
	driver *Driver
	kind   kind

	mu     sync.Mutex
	closed bool
	ready  []*corev1.Pod
	due    int // being made
}

// take gives a pod: a warm one where there is one that runs, else a new one, which
// may not run yet.
func (d *Driver) take(ctx context.Context, k kind) (*corev1.Pod, error) {
	if d.options.Warm > 0 {
		d.mu.Lock()
		p := d.pools[k]
		if p == nil && !d.closed {
			p = &pool{driver: d, kind: k}
			d.pools[k] = p
		}
		d.mu.Unlock()
		if p != nil {
			defer p.refill()
			for {
				object := p.pop()
				if object == nil {
					break
				}
				claimed, err := d.claim(ctx, object)
				if err == nil {
					return claimed, nil
				}
				d.log.Debug("a warm pod could not be claimed", "pod", object.Name, "cause", err)
				d.remove(object)
			}
		}
	}
	object := d.object(k)
	object.Labels[labelPool] = "claimed"
	return d.create(ctx, object)
}

// claim marks a warm pod as taken. Its version sees to it that nothing happened to
// it since it was seen running.
func (d *Driver) claim(ctx context.Context, object *corev1.Pod) (*corev1.Pod, error) {
	change := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{%q:"claimed"}}}`, object.ResourceVersion, labelPool)
	var claimed *corev1.Pod
	err := retry(ctx, func() (err error) {
		claimed, err = d.clients.writes.CoreV1().Pods(d.clients.namespace).Patch(ctx, object.Name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	slim(claimed)
	return claimed, nil
}

// pop gives a warm pod that still runs and is young enough, or nil.
func (p *pool) pop() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) > 0 {
		object := p.ready[0]
		p.ready = p.ready[1:]
		now, gone, _ := p.driver.pods.look(object.UID)
		if now != nil && ended(now, gone) == nil && now.Status.Phase == corev1.PodRunning && time.Since(now.CreationTimestamp.Time) < spare {
			return now
		}
		p.driver.remove(object)
	}
	return nil
}

// refill makes what is missing, half of the creates at most, so that sandboxes that
// somebody waits for go before.
func (p *pool) refill() {
	d := p.driver
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && len(p.ready)+p.due < d.options.Warm && p.due < max(1, d.options.Creates/2) {
		p.due++
		d.alive.Go(p.make)
	}
}

func (p *pool) make() {
	d := p.driver
	ctx, cancel := context.WithTimeout(d.life, d.defaults.Create)
	defer cancel()
	object := d.object(p.kind)
	object.Labels[labelPool] = "warm"
	made, err := d.create(ctx, object)
	if err == nil {
		if _, err = d.pods.running(ctx, made.UID); err != nil {
			d.remove(made)
		}
	}
	p.mu.Lock()
	p.due--
	keep := err == nil && !p.closed
	if keep {
		p.ready = append(p.ready, made)
	}
	p.mu.Unlock()
	switch {
	case keep:
		p.refill()
	case err == nil:
		d.remove(made)
	case d.life.Err() == nil && !apierrors.IsNotFound(err):
		// The next take tries again.
		d.log.Warn("no warm pod could be made", "image", p.kind.image, "cause", err)
	}
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, object := range p.ready {
		p.driver.remove(object)
	}
	p.ready = nil
}

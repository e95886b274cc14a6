package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// session owns all that one driver makes.
type session struct {
	clients *clients
	name    string
	owner   metav1.OwnerReference
	lease   time.Duration
	log     *slog.Logger
}

// openSession makes the ConfigMap that owns everything, and its Lease.
func openSession(ctx context.Context, c *clients, lease time.Duration, log *slog.Logger) (*session, error) {
	s := &session{clients: c, name: "valence-" + strings.ToLower(rand.Text()[:16]), lease: lease, log: log}
	host, _ := os.Hostname()
	meta := metav1.ObjectMeta{Name: s.name, Labels: map[string]string{labelSession: s.name}}
	err := retry(ctx, func() error {
		made, err := c.writes.CoreV1().ConfigMaps(c.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"host": host}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an attempt before went through unheard
			made, err = c.writes.CoreV1().ConfigMaps(c.namespace).Get(ctx, s.name, metav1.GetOptions{})
		}
		if err == nil {
			s.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: made.Name, UID: made.UID}
		}
		return err
	})
	if err == nil {
		err = retry(ctx, func() error { return s.hold(ctx) })
	}
	if err != nil {
		// It may exist all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// hold makes the Lease.
func (s *session) hold(ctx context.Context) error {
	host, _ := os.Hostname()
	seconds := int32(s.lease / time.Second)
	_, err := s.clients.writes.CoordinationV1().Leases(s.clients.namespace).Create(ctx, &coordv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{labelSession: s.name}, OwnerReferences: []metav1.OwnerReference{s.owner}},
		Spec:       coordv1.LeaseSpec{HolderIdentity: &host, LeaseDurationSeconds: &seconds, RenewTime: now()}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func now() *metav1.MicroTime { t := metav1.NowMicro(); return &t }

// errLost says that somebody deleted the session. The cluster then deletes all that
// is made in its name.
var errLost = errors.New("the session was deleted: by somebody, or by another host after this one could not renew its lease for too long")

// keep renews the Lease, and deletes the sessions of others that expired, until ctx
// ends or the session is lost.
func (s *session) keep(ctx context.Context, lost func()) {
	tick := time.NewTicker(s.lease / 4)
	defer tick.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sessions of dead hosts could not be looked for", "cause", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := s.renew(ctx)
		if errors.Is(err, errLost) {
			lost()
			return
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the session's lease could not be renewed", "cause", err)
		}
	}
}

func (s *session) renew(ctx context.Context) error {
	leases := s.clients.writes.CoordinationV1().Leases(s.clients.namespace)
	l, err := leases.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		m, err := s.clients.writes.CoreV1().ConfigMaps(s.clients.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && (m.UID != s.owner.UID || m.DeletionTimestamp != nil) {
			return errLost
		}
		if err != nil {
			return err
		}
		return s.hold(ctx)
	}
	if err != nil {
		return err
	}
	l.Spec.RenewTime = now()
	_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	return err
}

// sweep deletes sessions whose Lease has not been renewed for twice its duration:
// the clocks of two hosts may differ. A session without a Lease is being made, or
// its host died doing so.
func (s *session) sweep(ctx context.Context) error {
	c := s.clients
	options := metav1.ListOptions{LabelSelector: labelSession}
	maps, err := c.writes.CoreV1().ConfigMaps(c.namespace).List(ctx, options)
	if err != nil {
		return err
	}
	leases, err := c.writes.CoordinationV1().Leases(c.namespace).List(ctx, options)
	if err != nil {
		return err
	}
	expiry := map[string]time.Time{}
	for _, l := range leases.Items {
		if l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil {
			expiry[l.Name] = l.Spec.RenewTime.Add(2 * time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
		}
	}
	for _, m := range maps.Items {
		end, ok := expiry[m.Name]
		if !ok {
			end = m.CreationTimestamp.Add(2 * s.lease)
		}
		if m.Name == s.name || time.Now().Before(end) {
			continue
		}
		background := metav1.DeletePropagationBackground
		err := c.writes.CoreV1().ConfigMaps(c.namespace).Delete(ctx, m.Name, metav1.DeleteOptions{
			PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(m.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		s.log.Info("deleted what a dead host left in the cluster", "session", m.Name, "host", m.Data["host"])
	}
	return nil
}

// close deletes the session, and with it whatever it still owns.
func (s *session) close(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	return retry(ctx, func() error {
		err := s.clients.writes.CoreV1().ConfigMaps(s.clients.namespace).Delete(ctx, s.name, metav1.DeleteOptions{PropagationPolicy: &background})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

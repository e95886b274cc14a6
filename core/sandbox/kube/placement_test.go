package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
)

// TestPlacement: a pod is where and what the options say, as the cluster has it.
func TestPlacement(t *testing.T) {
	o := cluster(t)
	c, err := connect(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err = c.writes.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Handler: "runc"}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	defer c.writes.NodeV1().RuntimeClasses().Delete(context.WithoutCancel(ctx), "other", metav1.DeleteOptions{})
	nodes, err := c.writes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := nodes.Items[0].Labels[corev1.LabelHostname]
	o.RuntimeClass, o.PullSecrets = "other", []string{"one", "two"}
	o.NodeSelector = map[string]string{corev1.LabelHostname: name}
	d := open(t, o)
	if level := d.Isolation().Level; level != "pod/other" {
		t.Errorf("level %q", level)
	}
	b := create(t, d)
	works(t, b)
	p, err := c.writes.CoreV1().Pods(c.namespace).Get(ctx, b.object.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Spec
	if s.RuntimeClassName == nil || *s.RuntimeClassName != "other" || s.NodeName != nodes.Items[0].Name || len(s.ImagePullSecrets) != 2 {
		t.Errorf("runtime class %v, node %q, secrets %v", s.RuntimeClassName, s.NodeName, s.ImagePullSecrets)
	}
	if len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != d.session.owner.UID || s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken {
		t.Errorf("owners %v, token %v", p.OwnerReferences, s.AutomountServiceAccountToken)
	}
	l := sandbox.DefaultLimits()
	for _, k := range append(s.InitContainers, s.Containers...) {
		if k.Resources.Limits.Memory().Value() != l.Memory+serverMemory || k.Resources.Limits.Cpu().MilliValue() != 1000 ||
			k.Resources.Requests.Cpu().MilliValue() != 100 || k.Resources.Limits.StorageEphemeral().Value() != l.Disk {
			t.Errorf("container %s: %v", k.Name, k.Resources)
		}
		if k.SecurityContext.AllowPrivilegeEscalation == nil || *k.SecurityContext.AllowPrivilegeEscalation || k.SecurityContext.Capabilities.Drop[0] != "ALL" {
			t.Errorf("container %s: %v", k.Name, k.SecurityContext)
		}
	}

	// Where there is no such node it waits, and then says for what.
	o.NodeSelector = map[string]string{corev1.LabelHostname: "nowhere"}
	o.Defaults.Create = 3 * time.Second
	_, err = New(ctx, o)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "waits for a node") {
		t.Errorf("no such node: %v", err)
	}
	o.RuntimeClass = "none"
	_, err = New(ctx, o)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), `RuntimeClass "none" not found`) {
		t.Errorf("no such runtime class: %v", err)
	}
}

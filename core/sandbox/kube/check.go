package kube

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/kube/inside"
)

// verdict is whether a node's pods reach anything. It is found out once.
type verdict struct {
	mu   sync.Mutex
	done bool
	err  error
}

// check tries the network from inside b, unless another pod of its node has.
func (d *Driver) check(ctx context.Context, b *box, object *corev1.Pod, api string) error {
	d.mu.Lock()
	v := d.nodes[object.Spec.NodeName]
	if v == nil {
		v = &verdict{}
		d.nodes[object.Spec.NodeName] = v
	}
	d.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return v.err
	}
	args := []string{inside.Program, inside.Dial, "tcp/1.1.1.1:443", "tcp/8.8.8.8:53"}
	if api != "" {
		args = append(args, "tcp/"+api)
	}
	if host := object.Status.HostIP; host != "" {
		args = append(args, "tcp/"+net.JoinHostPort(host, "10250"))
	}
	r, err := b.Exec(ctx, sandbox.Command{Args: append(args, d.options.Reach...)})
	if err != nil {
		return err // it says nothing about the node
	}
	v.done = true
	switch reached := strings.Fields(string(r.Output)); {
	case r.ExitCode != 0:
		v.err = fmt.Errorf("the network could not be tried from inside: code %d: %s", r.ExitCode, r.Output)
	case len(reached) > 0:
		v.err = &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S012",
			Summary: fmt.Sprintf("pods on node %s reach %s", object.Spec.NodeName, strings.Join(reached, ", ")),
			Hint:    "apply deploy/network-policy.yaml; if it is there, the cluster's network plugin does not enforce policies",
			Detail:  []string{"sandboxes must have no network"}}
	}
	return v.err
}

// Package kube makes sandboxes as pods of a Kubernetes cluster.
//
// A sandbox is one bare pod. An init container copies the tool server into a volume
// that the sandbox's own container sees read-only and runs as its process 1; the
// host speaks with it over one held-open exec stream. Streams may be cut: the next
// one takes over, and what was asked for is carried out once.
//
// Everything that a driver makes is owned by a ConfigMap, its session, with a Lease
// that it renews. When the host dies, whichever driver comes next in the namespace
// finds the Lease expired and deletes the session, and the cluster all that it owns;
// pods without any driver end with their own deadline.
//
// That nothing can be reached over the network is the cluster's doing (deploy/ has
// the policy). The driver tries it from inside a pod on every node that it uses, and
// refuses the node's pods where something answers.
package kube

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/valence-rl/valence/core/sandbox"
)

// Options say how a driver works.
type Options struct {
	// Kubeconfig is a file, Context one of its contexts. Default: the pod's own
	// account within a cluster; else $KUBECONFIG, ~/.kube/config and its current context.
	Kubeconfig, Context string
	// Namespace holds everything that the driver makes. Default: the context's.
	Namespace string
	// Image is what workspaces without an image run on. It needs /bin/sh.
	Image string
	// Tools is an image with cmd/valence-toolserver at /usr/local/bin/valence-toolserver.
	// Both ends must speak the same protocol: use the image of the same release.
	Tools string

	RuntimeClass string            // e.g. gvisor or kata. Default: the cluster's
	NodeSelector map[string]string // where pods may run
	Tolerations  []corev1.Toleration
	PullSecrets  []string // names of secrets in the namespace

	// Defaults stand in for limits that a Spec leaves zero; where they are zero
	// too, sandbox.DefaultLimits do.
	Defaults sandbox.Limits
	// CPUShare is how many sandboxes' CPU limits one CPU of a node is promised to;
	// memory is promised once. 1 also puts pods into the class Guaranteed, in which
	// the kernel kills commands before the tool server when memory runs out. Default 10.
	CPUShare float64
	// Creates bounds pods being created at once: 8 for each core of the API server. Default 8.
	Creates int
	// Warm is how many pods are kept ready for each image and limits that were
	// asked for. Take the group size or more. Default 0: none.
	Warm int
	// Reach are further addresses that must be out of reach, as tcp/HOST:PORT. The
	// cluster's API, the node's kubelet and two public addresses always must.
	Reach []string
	// Lease is how long a session outlives its host. Default 1 min.
	Lease time.Duration
	// Log gets warnings and, at debug level, the life of each sandbox. Default: none.
	Log *slog.Logger
}

// Labels of what drivers make.
const (
	labelSession = "valence.dev/session" // the session's name; on the session itself too
	labelPool    = "valence.dev/pool"    // of a pod: warm or claimed
)

package kube

import (
	"crypto/rand"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/kube/inside"
)

// kind is what pods must have in common to stand in for each other.
type kind struct {
	image        string
	memory, disk int64
	cpus         float64
	life         time.Duration
}

// kindOf leaves out the limits that pods do not know.
func kindOf(image string, l sandbox.Limits) kind {
	return kind{image: image, memory: l.Memory, disk: l.Disk, cpus: l.CPUs, life: l.Life}
}

// spare is how long a warm pod may wait before its life begins.
const spare = time.Hour

// serverMemory is what the tool server needs beside the limit on memory.
const serverMemory = 32 << 20

// object is the pod of a sandbox.
func (d *Driver) object(k kind) *corev1.Pod {
	o := d.options
	quantity := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }
	limits := corev1.ResourceList{
		corev1.ResourceMemory:           quantity(k.memory + serverMemory),
		corev1.ResourceCPU:              *resource.NewMilliQuantity(int64(k.cpus*1000), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: quantity(k.disk),
	}
	// Commands are idle most of the time, so a CPU can be promised to several; memory cannot.
	requests := limits.DeepCopy()
	requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(k.cpus*1000/o.CPUShare), resource.DecimalSI)
	resources := corev1.ResourceRequirements{Limits: limits, Requests: requests}
	secured := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(bool),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	volume := func(readOnly bool) []corev1.VolumeMount {
		return []corev1.VolumeMount{{Name: "tools", MountPath: inside.Dir, ReadOnly: readOnly}}
	}
	no, life, none := false, int64((k.life+spare)/time.Second), int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "valence-" + strings.ToLower(rand.Text()),
			Labels:          map[string]string{labelSession: d.session.name},
			OwnerReferences: []metav1.OwnerReference{d.session.owner},
		},
		Spec: corev1.PodSpec{
			Hostname:                      "sandbox",
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			ActiveDeadlineSeconds:         &life,
			TerminationGracePeriodSeconds: &none,
			DNSPolicy:                     corev1.DNSNone,
			DNSConfig:                     &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}},
			NodeSelector:                  o.NodeSelector,
			Tolerations:                   o.Tolerations,
			SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Volumes:                       []corev1.Volume{{Name: "tools", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			InitContainers: []corev1.Container{{
				Name: "tools", Image: o.Tools, ImagePullPolicy: corev1.PullIfNotPresent, VolumeMounts: volume(false), SecurityContext: secured,
				Command:   []string{inside.Source, inside.Copy},
				Resources: resources,
			}},
			Containers: []corev1.Container{{
				Name: container, Image: k.image, ImagePullPolicy: corev1.PullIfNotPresent, VolumeMounts: volume(true), SecurityContext: secured,
				Command:   []string{inside.Program, inside.Serve},
				Resources: resources,
			}},
		},
	}
	if o.RuntimeClass != "" {
		pod.Spec.RuntimeClassName = &o.RuntimeClass
	}
	for _, name := range o.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return pod
}

// container is the name of the sandbox's own one.
const container = "sandbox"

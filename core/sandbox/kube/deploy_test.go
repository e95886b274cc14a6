package kube

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/valence-rl/valence/core/sandbox"
)

// deployed reads a file of deploy/, in which no field may be unknown.
func deployed(t *testing.T, file string) []runtime.Object {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(b))); ; {
		// A document is given in one piece where it fits.
		one := make([]byte, len(b)+1)
		n, err := documents.Read(one)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := strict.Decode(one[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, o)
	}
}

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

const deployDir = "../../../deploy/"

func TestDeploy(t *testing.T) {
	files, err := filepath.Glob(deployDir + "*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	count := 0
	for _, f := range files {
		for _, o := range deployed(t, f) {
			count++
			if m, ok := o.(metav1.Object); !ok || (m.GetNamespace() != "valence" && m.GetName() != "valence") {
				t.Errorf("%s: a %T outside of the namespace", f, o)
			}
		}
	}
	if count != 7 {
		t.Errorf("%d objects", count)
	}
}

// TestLeastRights: the role of deploy/ is enough, and it does not reach secrets.
func TestLeastRights(t *testing.T) {
	o := cluster(t)
	config, err := clientcmd.LoadFromFile(o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, create := t.Context(), metav1.CreateOptions{}
	for _, object := range deployed(t, deployDir+"rbac.yaml") {
		switch v := object.(type) {
		case *corev1.ServiceAccount:
			_, err = c.writes.CoreV1().ServiceAccounts(c.namespace).Create(ctx, v, create)
		case *rbacv1.Role:
			_, err = c.writes.RbacV1().Roles(c.namespace).Create(ctx, v, create)
		case *rbacv1.RoleBinding:
			_, err = c.writes.RbacV1().RoleBindings(c.namespace).Create(ctx, v, create)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:valence:valence-host"
	}
	o.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, o.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	var log lines
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	o.Warm = 1
	d := open(t, o)
	b, err := d.Create(ctx, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Exec(ctx, sandbox.Command{Shell: "echo ready"}); err != nil || string(r.Output) != "ready\n" {
		t.Errorf("%q, %v", r.Output, err)
	}
	if err := d.session.renew(ctx); err != nil {
		t.Error(err)
	}
	if err := d.session.sweep(ctx); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Error(log.String())
	}
	if _, err := d.clients.writes.CoreV1().Secrets(c.namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("secrets: %v", err)
	}
}

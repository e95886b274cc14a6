package kube

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// small is an image with a shell.
func small(t *testing.T) v1.Image {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name, link string
		data       []byte
	}{{name: "bin/busybox", data: program}, {name: "bin/sh", link: "busybox"}, {name: "bin/echo", link: "busybox"}} {
		h := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		w.Write(f.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Architecture, c.OS, c.Config.Env = runtime.GOARCH, "linux", []string{"FROM_IMAGE=yes"}
	if image, err = mutate.ConfigFile(image, c); err != nil {
		t.Fatal(err)
	}
	return image
}

// TestRegistryDown: while a registry cannot be asked a sandbox waits for it, and is
// made once it can. An image that it does not have is an error at once.
func TestRegistryDown(t *testing.T) {
	ofThisMachine(t) // whose node pulls from its loopback
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	o := cluster(t)
	d := open(t, o)
	made := make(chan sandbox.Sandbox, 1)
	go func() {
		b, err := d.Create(t.Context(), sandbox.Spec{Workspace: sdk.Workspace{Image: address + "/small:1"}})
		if err != nil {
			t.Error(err)
		}
		made <- b
	}()
	pods := d.clients.watches.CoreV1().Pods(d.clients.namespace)
	for refused := false; !refused; {
		all, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: labelSession + "=" + d.session.name})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Items {
			for _, c := range p.Status.ContainerStatuses {
				refused = refused || c.State.Waiting != nil && said(c.State.Waiting.Message, silences)
			}
		}
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	ref, err := name.ParseReference(address + "/small:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, small(t)); err != nil {
		t.Fatal(err)
	}
	b := <-made
	if b == nil {
		return
	}
	if r, err := b.Exec(t.Context(), sandbox.Command{Shell: "echo $FROM_IMAGE"}); err != nil || string(r.Output) != "yes\n" {
		t.Errorf("%q, %v", r.Output, err)
	}
	_, err = d.Create(t.Context(), sandbox.Spec{Workspace: sdk.Workspace{Image: address + "/none:1"}})
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "none:1") || !strings.Contains(err.Error(), "not found") {
		t.Errorf("an image that is not there: %v", err)
	}
}

// TestPullSecret: images are pulled with the secret, and refused without it.
func TestPullSecret(t *testing.T) {
	ofThisMachine(t)
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "u" || password != "p" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "who is it?", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	ref, err := name.ParseReference(address + "/small:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, small(t), remote.WithAuth(&authn.Basic{Username: "u", Password: "p"})); err != nil {
		t.Fatal(err)
	}
	o := cluster(t)
	d := open(t, o)
	_, err = d.Create(t.Context(), sandbox.Spec{Workspace: sdk.Workspace{Image: address + "/small:1"}})
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a secret: %v", err)
	}
	secrets := d.clients.writes.CoreV1().Secrets(d.clients.namespace)
	_, err = secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "puller"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths": {"` + address + `": {"username": "u", "password": "p"}}}`}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer secrets.Delete(t.Context(), "puller", metav1.DeleteOptions{})
	o.PullSecrets = []string{"puller"}
	b, err := open(t, o).Create(t.Context(), sandbox.Spec{Workspace: sdk.Workspace{Image: address + "/small:1"}})
	if err != nil {
		t.Fatal(err)
	}
	works(t, b.(*box))
}

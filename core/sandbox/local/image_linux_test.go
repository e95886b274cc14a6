package local

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
	"github.com/valence-rl/valence/sdk"
)

// storeIn opens a store for drivers of this process.
func storeIn(dir string, o image.Options) func() (*image.Store, error) {
	o.Form = Form()
	return sync.OnceValues(func() (*image.Store, error) { return image.Open(dir, o) })
}

// suiteOn gives drivers whose workspaces are on an image by default.
func suiteOn(t *testing.T, o Options) sandboxtest.Factory {
	o.Image = imagetest.Save(t, imagetest.Suite(t))
	o.Images = storeIn(t.TempDir(), image.Options{})
	return opener(o)
}

// The whole suite holds on an image, too.
func TestImageConformance(t *testing.T) { sandboxtest.Run(t, suiteOn(t, Options{})) }

func TestImageConformanceOnDisk(t *testing.T) { sandboxtest.Run(t, suiteOn(t, Options{Upper: UpperDisk})) }

// imageDriver is one whose tasks may name the images.
func imageDriver(t *testing.T, o Options) *Driver {
	t.Helper()
	o.Dir, o.ImageFolders = t.TempDir(), []string{os.TempDir()}
	if o.Images == nil {
		o.Images = storeIn(t.TempDir(), image.Options{})
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func saved(t *testing.T, c v1.Config, layers ...v1.Layer) string {
	t.Helper()
	return imagetest.Save(t, imagetest.Image(t, c, layers...))
}

func mustCreate(t *testing.T, d sandbox.Driver, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	b, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Who has no images says so, and so does who has no namespaces.
func TestImageIsRefused(t *testing.T) {
	onImage := sandbox.Spec{Workspace: sdk.Workspace{Image: "python:3.12"}}
	_, err := newDriver(t).Create(t.Context(), onImage)
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "python:3.12") {
		t.Errorf("without a store: %v", err)
	}
	bare := Options{Bare: true, refused: refused{namespaces: true}, Images: storeIn(t.TempDir(), image.Options{})}
	_, err = opener(bare)(t).Create(t.Context(), onImage)
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != "S014" || d.Kind != diag.KindSandbox {
		t.Errorf("without namespaces: %v", err)
	}
	bare.Image, bare.Dir = "python:3.12", t.TempDir()
	if _, err = New(bare); !errors.As(err, &d) || d.Code != "S014" {
		t.Errorf("a driver on an image without namespaces: %v", err)
	}
}

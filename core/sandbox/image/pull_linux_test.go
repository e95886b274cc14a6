package image

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func pullHelper([]string) error { return errors.New("not yet") }

// serve runs a registry on loopback behind middle, and gives its host.
func serve(t testing.TB, middle func(http.Handler) http.Handler) string {
	t.Helper()
	h := fake.New(fake.Logger(log.New(io.Discard, "", 0)))
	if middle != nil {
		h = middle(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// built makes an image of archives, the lowest first.
func built(t testing.TB, run v1.Config, archives ...[]byte) v1.Image {
	t.Helper()
	var layers []v1.Layer
	for _, a := range archives {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(a))), nil })
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Config = "linux", runtime.GOARCH, run
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

func push(t testing.TB, reference string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.Pause == 0 {
		o.Pause = time.Nanosecond
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pull(t testing.TB, s *Store, reference string) *Image {
	t.Helper()
	i, err := s.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	return i
}

func sampleImage(t testing.TB) v1.Image {
	return built(t, v1.Config{
		Env: []string{"PATH=/usr/bin", "A=b"}, WorkingDir: "testbed", User: "agent", Entrypoint: []string{"/bin/sh"}, Cmd: []string{"-c", "true"},
	},
		archive(t, folder("etc/"), file("etc/passwd", "root:x:0:0::/root:/bin/sh\nagent:x:1000:1001::/home/agent:/bin/sh\n"),
			file("etc/group", "root:x:0:\nagent:x:1001:\nwheel:x:10:agent,other\n"), folder("testbed/"), file("testbed/old.py", "1")),
		archive(t, file("testbed/.wh.old.py", ""), file("testbed/new.py", "2")))
}

func TestPullUnpackMount(t *testing.T) {
	address := serve(t, nil) + "/acme/tool:1"
	digest := push(t, address, sampleImage(t))
	for name, form := range map[string]Form{"one user": {}, "a range": rangeForm} {
		t.Run(name, func(t *testing.T) {
			if err := mountable(t, form); err != nil {
				t.Skipf("overlays cannot be mounted here: %v", err)
			}
			var last Progress
			i := pull(t, open(t, t.TempDir(), Options{Form: form, Progress: func(p Progress) { last = p }}), address)
			if i.Digest != digest || i.WorkingDir != "/testbed" || !slices.Equal(i.Env, []string{"PATH=/usr/bin", "A=b"}) ||
				!slices.Equal(i.Entrypoint, []string{"/bin/sh"}) || !slices.Equal(i.Cmd, []string{"-c", "true"}) {
				t.Errorf("%+v", i)
			}
			if u := i.User; u.Name != "agent" || u.UID != 1000 || u.GID != 1001 || u.Home != "/home/agent" || !slices.Equal(u.Groups, []int{10}) {
				t.Errorf("user %+v", u)
			}
			if last.Done != last.Total || last.Total == 0 || len(last.Layers) != 2 || !last.Layers[0].Ready {
				t.Errorf("progress %+v", last)
			}
			// The sandbox's user must find the way; a driver hands over open folders instead.
			for _, l := range i.Layers {
				for d := filepath.Dir(l); d != "/"; d = filepath.Dir(d) {
					if err := os.Chmod(d, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			seen, err := mounted(t, i.Layers, form)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range seen {
				got = append(got, string(e.Path))
			}
			if strings.Join(got, " ") != "etc etc/group etc/passwd testbed testbed/new.py" {
				t.Errorf("seen %q", got)
			}
		})
	}
}

package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// quick tries again at once.
var quick = Client{Pause: time.Nanosecond}

var sample = &Artifact{Module: []byte("\x00asm\x01\x00\x00\x00 and more"), Notes: map[string]string{PluginNote: "name = \"tiny\"\n", SignatureNote: "a b"}}

// serve runs a registry on loopback behind middle, and gives its host.
func serve(t *testing.T, middle func(http.Handler) http.Handler) string {
	t.Helper()
	h := registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))
	if middle != nil {
		h = middle(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func push(t *testing.T, address string) string {
	t.Helper()
	d, err := quick.Push(t.Context(), address, sample)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRoundTrip(t *testing.T) {
	address := serve(t, nil) + "/acme/tiny:0.1.0"
	d := push(t, address)
	if again := push(t, address); again != d {
		t.Errorf("pushed twice, the digest is %s and %s", d, again)
	}
	for _, a := range []string{address, strings.TrimSuffix(address, ":0.1.0") + "@" + d} {
		f, err := quick.Find(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if f.Digest != d || f.Module != digest(sample.Module) || f.Size != int64(len(sample.Module)) || f.Notes[PluginNote] != sample.Notes[PluginNote] {
			t.Errorf("%+v", f)
		}
		if b, err := f.Fetch(t.Context()); err != nil || !bytes.Equal(b, sample.Module) {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// What other tools expect of a module in a registry.
func TestLayout(t *testing.T) {
	_, raw, config, err := sample.encode()
	if err != nil {
		t.Fatal(err)
	}
	const wantConfig = `{"created":"1970-01-01T00:00:00Z","architecture":"wasm","os":"wasip1","layerDigests":["sha256:81b13e108db21f232741fe2b3ac057c1e958c9677765865a61ecb2724f3e91da"]}`
	if string(config) != wantConfig {
		t.Errorf("config %s", config)
	}
	const want = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.wasm.config.v0+json","digest":"D","size":161},"layers":[{"mediaType":"application/wasm","digest":"D","size":17}],"annotations":{"io.github.valence-rl.plugin":"name = \"tiny\"\n","io.github.valence-rl.signature":"a b"}}`
	if got := strings.NewReplacer(digest(config), "D", digest(sample.Module), "D").Replace(string(raw)); got != want {
		t.Errorf("manifest %s", got)
	}
}

// A copy by a tool that knows nothing of modules is the same artifact.
func TestCopiesKeepEverything(t *testing.T) {
	from, to := serve(t, nil)+"/acme/tiny:0.1.0", serve(t, nil)+"/mirror/tiny:0.1.0"
	d := push(t, from)
	source, err := name.ParseReference(from)
	if err != nil {
		t.Fatal(err)
	}
	target, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(target, img); err != nil {
		t.Fatal(err)
	}
	f, err := quick.Find(t.Context(), to)
	if err != nil || f.Digest != d || f.Notes[SignatureNote] != "a b" {
		t.Errorf("%+v, %v", f, err)
	}
}

func reason(t *testing.T, err error, want Reason, words ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Fatalf("%v, want the reason %s", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in %v", w, err)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	host := serve(t, nil)
	push(t, host+"/acme/tiny:0.1.0")
	img, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host + "/acme/image:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		name, address string
		reason        Reason
		words         string
	}{
		{"no such tag", host + "/acme/tiny:0.2.0", Absent, "find: " + host + "/acme/tiny:0.2.0: "},
		{"no such repository", host + "/acme/other:0.1.0", Absent, ""},
		{"an image", host + "/acme/image:1", Foreign, `a module's has "application/vnd.wasm.config.v0+json"`},
		{"nobody answers", strings.TrimPrefix(gone.URL, "http://") + "/acme/tiny:1", Unreachable, "connection refused"},
		{"no tag", host + "/acme/tiny", Invalid, ""},
		{"no host", "acme/tiny:1", Invalid, ""},
		{"nothing", "", Invalid, ""},
		{"a short digest", host + "/acme/tiny@sha256:00", Invalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := quick.Find(t.Context(), c.address)
			reason(t, err, c.reason, c.words)
		})
	}
	if err := Check("ghcr.io/acme/tiny:1"); err != nil {
		t.Error(err)
	}
	_, err = quick.Push(t.Context(), host+"/acme/tiny@"+digest(nil), sample)
	reason(t, err, Invalid, "a digest cannot be chosen")
}

// altered changes what the registry answers to requests for paths with a part.
func altered(part string, change func([]byte) []byte) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				h.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			body := change(rec.Body.Bytes())
			for k, v := range rec.Header() {
				if k != "Content-Length" && k != "Docker-Content-Digest" {
					w.Header()[k] = v
				}
			}
			w.WriteHeader(rec.Code)
			w.Write(body)
		})
	}
}

func TestChangedBytesAreNoticed(t *testing.T) {
	flip := func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }
	for name, change := range map[string]func([]byte) []byte{
		"a bit":    flip,
		"longer":   func(b []byte) []byte { return append(bytes.Clone(b), 'x') },
		"shorter":  func(b []byte) []byte { return b[:len(b)-1] },
		"nothing":  func(b []byte) []byte { return nil },
		"another":  func(b []byte) []byte { return make([]byte, len(b)) },
		"in front": func(b []byte) []byte { return append([]byte("x"), b...) },
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, altered("/blobs/sha256:", change)) + "/acme/tiny:0.1.0"
			push(t, address)
			f, err := quick.Find(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			if name == "longer" { // what comes behind the module is not read
				if b, err := f.Fetch(t.Context()); err == nil && !bytes.Equal(b, sample.Module) {
					t.Errorf("%q", b)
				}
				return
			}
			b, err := f.Fetch(t.Context())
			reason(t, err, Changed, "fetch: "+address)
			if b != nil {
				t.Errorf("%q beside the error", b)
			}
		})
	}
	address := serve(t, altered("/manifests/", flip)) + "/acme/tiny"
	d := push(t, address+":0.1.0")
	_, err := quick.Find(t.Context(), address+"@"+d)
	reason(t, err, Changed)
}

func TestWhatTheRegistryAnswers(t *testing.T) {
	for code, want := range map[int]Reason{401: Denied, 403: Denied, 404: Absent, 418: Refused, 429: Unreachable, 500: Unreachable, 503: Unreachable} {
		host := serve(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					w.WriteHeader(code)
					return
				}
				h.ServeHTTP(w, r)
			})
		})
		_, err := quick.Find(t.Context(), host+"/acme/tiny:1")
		reason(t, err, want)
		_, err = quick.Push(t.Context(), host+"/acme/tiny:1", sample)
		if want != Absent { // a push begins by asking, and takes this for an answer
			reason(t, err, want)
		}
	}
}

// A registry that wants a name and a password gets those of docker's configuration.
func TestCredentials(t *testing.T) {
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name, word, _ := r.BasicAuth(); name != "acme" || word != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	_, err := quick.Push(t.Context(), host+"/acme/tiny:1", sample)
	reason(t, err, Denied)
	config := `{"auths": {"` + host + `": {"username": "acme", "password": "secret"}}}`
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	push(t, host+"/acme/tiny:1")
	if _, err := quick.Find(t.Context(), host+"/acme/tiny:1"); err != nil {
		t.Error(err)
	}
}

func TestFailingForAMoment(t *testing.T) {
	var asked atomic.Int32
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") && asked.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	push(t, host+"/acme/tiny:1")
	if _, err := quick.Find(t.Context(), host+"/acme/tiny:1"); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

func TestInterrupted(t *testing.T) {
	host := serve(t, nil)
	push(t, host+"/acme/tiny:1")
	f, err := quick.Find(t.Context(), host+"/acme/tiny:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quick.Find(ctx, host+"/acme/tiny:1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := f.Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := quick.Push(ctx, host+"/acme/tiny:1", sample); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	_, raw, _, err := sample.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"layers":[{"size":-1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if (m == nil) == (err == nil) {
			t.Errorf("%+v, %v", m, err)
		}
		if m != nil {
			if _, err := json.Marshal(m); err != nil || m.Layers[0].Size < 0 {
				t.Errorf("%+v, %v", m, err)
			}
		}
	})
}

package registry

import (
	"bytes"
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"

	"github.com/valence-rl/valence/registry/oci"
)

// house is a registry on loopback that can be closed, counts what it is asked, and
// can alter what it answers.
type house struct {
	http.Handler
	host  string
	asked atomic.Int32
	alter func(r *http.Request, body []byte) []byte
	stop  func()
}

func open(t testing.TB) *house {
	t.Helper()
	h := &house{Handler: ociregistry.New(ociregistry.Logger(stdlog.New(io.Discard, "", 0)))}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		if h.alter == nil || r.Method != http.MethodGet {
			h.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		w.Write(h.alter(r, rec.Body.Bytes()))
	}))
	t.Cleanup(s.Close)
	h.stop = s.Close
	h.host = strings.TrimPrefix(s.URL, "http://")
	return h
}

func (h *house) options(t testing.TB, l *log) Options {
	return Options{Cache: t.TempDir(), Repository: h.host + "/acme", Log: slog.New(l), client: oci.Client{Pause: time.Nanosecond}}
}

// tiny is a file with a module that does nothing, of a version.
func tiny(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.wasm")
	text := strings.Replace(manifest, "0.1.0", version, 1)
	write(t, path, string(WithSection([]byte("\x00asm\x01\x00\x00\x00"), ManifestSection, []byte(text))))
	return path
}

func pushed(t testing.TB, ref, to string, k *PrivateKey, o Options) *Pushed {
	t.Helper()
	p, err := Push(t.Context(), ref, to, k, false, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPushAndResolve(t *testing.T) {
	h, l := open(t), new(log)
	o := h.options(t, l)
	k := key(t)
	p := pushed(t, tiny(t, "0.1.0"), "", &k, o)
	if p.Address != "oci://"+h.host+"/acme/tiny:0.1.0" || p.Replaced || !slices.Equal(p.Module.Keys, []PublicKey{k.Public()}) {
		t.Errorf("%+v", p)
	}
	byDigest := "oci://" + h.host + "/acme/tiny@" + p.Artifact
	for _, ref := range []string{"tiny@0.1.0", "oci://" + h.host + "/acme/tiny:0.1.0", byDigest} {
		o := h.options(t, l)
		m := resolve(t, ref, o)
		if m.Digest != p.Module.Digest || m.Ref != ref || m.Transport != WASM || !bytes.Equal(m.Wasm, p.Module.Wasm) || m.Signer != "" || len(m.Keys) != 1 {
			t.Errorf("%s: %+v", ref, m)
		}
		if text, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(text, m.Wasm) {
			t.Errorf("%s: %s: %v", ref, m.Path, err)
		}
		o.Trust = []Signer{{"acme", k.Public()}}
		if m := resolve(t, ref, o); m.Signer != "acme" {
			t.Errorf("%s: signer %q", ref, m.Signer)
		}
		o.Transport = Process
		_, err := Resolve(t.Context(), ref, o)
		wants(t, err, "P014", "it is a module")
	}
	// A digest is for ever: nobody is asked twice.
	resolve(t, byDigest, o)
	h.stop()
	resolve(t, byDigest, o)
	if len(l.warned) > 0 {
		t.Errorf("warned: %q", l.warned)
	}
}

func TestPushKeepsWhatIsThere(t *testing.T) {
	h := open(t)
	o := h.options(t, new(log))
	first, second := key(t), key(t)
	pushed(t, tiny(t, "0.1.0"), "", &first, o)
	pushed(t, tiny(t, "0.1.0"), "", &second, o)
	if p := pushed(t, tiny(t, "0.1.0"), "", nil, o); len(p.Module.Keys) != 2 {
		t.Errorf("%d signatures are kept, want that of either", len(p.Module.Keys))
	}
	if m := resolve(t, "tiny@0.1.0", o); len(m.Keys) != 2 {
		t.Errorf("%d signatures, want that of either", len(m.Keys))
	}
	other := "oci://" + h.host + "/acme/tiny:0.1.0"
	_, err := Push(t.Context(), tiny(t, "0.2.0"), other, nil, false, o)
	wants(t, err, "P025", "there is another plugin at "+quote(other)+" already", "raise the version in plugin.toml, or push with --force", "to push  sha256:", "there    sha256:")
	p, err := Push(t.Context(), tiny(t, "0.2.0"), other, nil, true, o)
	if err != nil || !p.Replaced {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestPushRefuses(t *testing.T) {
	h := open(t)
	o := h.options(t, new(log))
	python := foreign(t, Python, map[string]string{Script: ""})
	_, err := Push(t.Context(), python, "", nil, false, o)
	wants(t, err, "P014", "its sources are python", "a registry keeps modules")
	for _, to := range []string{h.host + "/acme/tiny:1", "oci://" + h.host + "/acme/tiny@" + Digest(nil), "tiny@0.1.0"} {
		_, err = Push(t.Context(), tiny(t, "0.1.0"), to, nil, false, o)
		wants(t, err, "P001", "cannot be pushed to", "oci://host/repository:tag")
	}
	o.Repository = ""
	_, err = Push(t.Context(), tiny(t, "0.1.0"), "", nil, false, o)
	wants(t, err, "P012", "the run names none", "say oci://host/path/tiny:0.1.0")
	h.stop()
	_, err = Push(t.Context(), tiny(t, "0.1.0"), "oci://"+h.host+"/acme/tiny:1", nil, false, o)
	wants(t, err, "P012", "cannot be reached")
}

// A module beside its manifest is pushed with the manifest inside.
func TestPushedModuleCarriesItsManifest(t *testing.T) {
	h := open(t)
	o, dir := h.options(t, new(log)), t.TempDir()
	write(t, filepath.Join(dir, "m.wasm"), "\x00asm\x01\x00\x00\x00")
	write(t, filepath.Join(dir, ManifestFile), manifest)
	p := pushed(t, filepath.Join(dir, "m.wasm"), "", nil, o)
	if m := resolve(t, "tiny@0.1.0", o); m.Manifest.Name != "tiny" || m.Digest != p.Module.Digest {
		t.Errorf("%+v", m)
	}
}

func TestOffline(t *testing.T) {
	h, l := open(t), new(log)
	o := h.options(t, l)
	k := key(t)
	o.Trust = []Signer{{"acme", k.Public()}}
	p := pushed(t, tiny(t, "0.1.0"), "", &k, o)
	m := resolve(t, "tiny@0.1.0", o)
	h.stop()
	again := resolve(t, "tiny@0.1.0", o)
	if again.Digest != p.Module.Digest || again.Signer != "acme" || !slices.Equal(l.warned, []string{"the registry cannot be reached; using the plugin in the cache"}) {
		t.Errorf("%+v, warned: %q", again, l.warned)
	}
	_, err := Resolve(t.Context(), "tiny@0.2.0", o)
	wants(t, err, "P012", `the registry of "tiny@0.2.0" cannot be reached`, "nor is it in the cache")

	// What is pinned asks nobody.
	o.Lock, o.Locked, l.warned = filepath.Join(t.TempDir(), LockFile), true, nil
	if _, err := o.Pin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	resolve(t, "tiny@0.1.0", o)
	if len(l.warned) > 0 {
		t.Errorf("warned: %q", l.warned)
	}
	flip(t, m.Path)
	_, err = Resolve(t.Context(), "tiny@0.1.0", o)
	wants(t, err, "P021", `plugin "tiny@0.1.0" has been changed in the cache`, "want "+m.Digest, "file "+m.Path)
}

func TestPinnedAsksNobody(t *testing.T) {
	h, l := open(t), new(log)
	o := h.options(t, l)
	pushed(t, tiny(t, "0.1.0"), "", nil, o)
	o.Lock = filepath.Join(t.TempDir(), LockFile)
	m := resolve(t, "tiny@0.1.0", o)
	if _, err := o.Pin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	asked := h.asked.Load()
	resolve(t, "tiny@0.1.0", o)
	if n := h.asked.Load(); n != asked {
		t.Errorf("asked %d times", n-asked)
	}
	// A changed byte in the cache: fetched again, said in the log.
	flip(t, m.Path)
	if again := resolve(t, "tiny@0.1.0", o); again.Digest != m.Digest || !slices.Equal(l.warned, []string{"a plugin in the cache has changed; fetching it again"}) {
		t.Errorf("%s, warned: %q", again.Digest, l.warned)
	}
	asked = h.asked.Load()
	if resolve(t, "tiny@0.1.0", o); h.asked.Load() != asked {
		t.Error("what was fetched again was not kept")
	}
	// The tag has moved: with an empty cache the pin is all there is to go by.
	if _, err := Push(t.Context(), tiny(t, "0.2.0"), "oci://"+h.host+"/acme/tiny:0.1.0", nil, true, o); err != nil {
		t.Fatal(err)
	}
	// Others who are not pinned follow it, and take nothing from those who are.
	loose := o
	loose.Lock = ""
	if moved := resolve(t, "oci://"+h.host+"/acme/tiny:0.1.0", loose); moved.Digest == m.Digest {
		t.Error("the tag has not moved")
	}
	if again := resolve(t, "tiny@0.1.0", o); again.Digest != m.Digest {
		t.Errorf("what is pinned is %s by now", again.Digest)
	}
	o.Cache = t.TempDir()
	_, err := Resolve(t.Context(), "tiny@0.1.0", o)
	wants(t, err, "P017", "pinned  "+m.Digest, "found   sha256:", "--> "+o.Lock+":3:3", "valence plugin add tiny@0.1.0")
	o.Lock, o.Locked = filepath.Join(t.TempDir(), LockFile), true
	asked = h.asked.Load()
	_, err = Resolve(t.Context(), "tiny@0.1.0", o)
	wants(t, err, "P016", "tiny@0.1.0")
	if h.asked.Load() != asked {
		t.Error("the registry was asked for what is not pinned")
	}
}

// Many that fetch one module at once, into one cache, all have it whole.
func TestManyFetchAtOnce(t *testing.T) {
	h := open(t)
	o := h.options(t, new(log))
	p := pushed(t, tiny(t, "0.1.0"), "", nil, o)
	o.Log = nil
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if m, err := Resolve(t.Context(), "tiny@0.1.0", o); err != nil || m.Digest != p.Module.Digest || Digest(m.Wasm) != m.Digest {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
	all.Wait()
	if left, err := filepath.Glob(filepath.Join(o.Cache, "*", ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRegistryThatLies(t *testing.T) {
	h := open(t)
	o := h.options(t, new(log))
	pushed(t, tiny(t, "0.1.0"), "", nil, o)
	h.alter = func(r *http.Request, body []byte) []byte {
		if strings.Contains(r.URL.Path, "/blobs/") {
			body = bytes.Clone(body)
			body[len(body)-2] ^= 1
		}
		return body
	}
	_, err := Resolve(t.Context(), "tiny@0.1.0", o)
	wants(t, err, "P021", `plugin "tiny@0.1.0" has been changed in the registry`)
	h.alter = nil

	// Another plugin under the name.
	if _, err := Push(t.Context(), tiny(t, "0.2.0"), "oci://"+h.host+"/acme/tiny:0.3.0", nil, true, o); err != nil {
		t.Fatal(err)
	}
	_, err = Resolve(t.Context(), "tiny@0.3.0", o)
	wants(t, err, "P022", `what "tiny@0.3.0" leads to is not that plugin: it is tiny 0.2.0`)

	for name, c := range map[string]struct {
		module []byte
		words  []string
	}{
		"no module":   {[]byte("text"), []string{"P013", "is not a WASM module"}},
		"no manifest": {[]byte("\x00asm\x01\x00\x00\x00"), []string{"P022", "it carries no manifest"}},
		"other ABI":   {WithSection([]byte("\x00asm\x01\x00\x00\x00"), ManifestSection, []byte(strings.Replace(manifest, "abi = 1", "abi = 2", 1))), []string{"P013", "the plugin wants ABI skill_v2, this build speaks skill_v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := o.client.Push(t.Context(), h.host+"/acme/tiny:9.9.9", &oci.Artifact{Module: c.module}); err != nil {
				t.Fatal(err)
			}
			_, err := Resolve(t.Context(), "tiny@9.9.9", o)
			wants(t, err, c.words...)
		})
	}
	_, err = Resolve(t.Context(), "tiny@7.7.7", o)
	wants(t, err, "P012", `plugin "tiny@7.7.7" is not in its registry`, "from "+h.host+"/acme/tiny:7.7.7")
}

func TestTrust(t *testing.T) {
	h := open(t)
	o := h.options(t, new(log))
	acme, stranger := key(t), key(t)
	pushed(t, tiny(t, "0.1.0"), "", nil, o)
	pushed(t, tiny(t, "0.2.0"), "", &stranger, o)
	p := pushed(t, tiny(t, "0.3.0"), "", &acme, o)
	// A good signature of another module.
	if _, err := o.client.Push(t.Context(), h.host+"/acme/tiny:0.4.0", &oci.Artifact{
		Module: WithSection(p.Module.Wasm, "more", nil), Notes: map[string]string{oci.SignatureNote: acme.Sign(p.Module.Digest).String()}}); err != nil {
		t.Fatal(err)
	}
	o.Trust = []Signer{{"acme", acme.Public()}}
	for ref, words := range map[string][]string{
		"tiny@0.1.0":                           {"P018", "is not signed"},
		"tiny@0.2.0":                           {"P019", "signed by nobody whom this run trusts", "signed by " + stranger.Public().String()},
		"oci://" + h.host + "/acme/tiny:0.4.0": {"P020", "a signature by acme that does not hold"},
	} {
		_, err := Resolve(t.Context(), ref, o)
		wants(t, err, words...)
	}
	if m := resolve(t, "tiny@0.3.0", o); m.Signer != "acme" {
		t.Errorf("signer %q", m.Signer)
	}
	// What is on this machine needs no signature.
	if m := resolve(t, tiny(t, "0.1.0"), o); m.Signer != "" {
		t.Errorf("signer %q", m.Signer)
	}
}

func TestDeniedByTheRegistry(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	_, err := Resolve(t.Context(), "oci://"+host+"/acme/tiny:1", Options{Cache: t.TempDir(), client: oci.Client{Pause: time.Nanosecond}})
	wants(t, err, "P024", "does not let you at", "docker login "+host)
}

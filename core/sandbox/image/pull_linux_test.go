package image

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/valence-rl/valence/core/diag"
)

// pullHelper pulls the image args[1] into the store args[0], says so, and keeps it in use
// until its input ends. With a third argument it says "ready" with each layer.
func pullHelper(args []string) error {
	o := Options{Pause: time.Nanosecond}
	if len(args) > 2 {
		o.Progress = func(p Progress) {
			if slices.ContainsFunc(p.Layers, func(l LayerProgress) bool { return l.Ready }) {
				fmt.Println("ready")
			}
		}
	}
	s, err := Open(args[0], o)
	if err != nil {
		return err
	}
	i, err := s.Pull(context.Background(), args[1])
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(i.Layers, " "))
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return i.Close()
}

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
				for d := filepath.Dir(l); form.shifted() && d != "/"; d = filepath.Dir(d) {
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

// isLayer tells whether a request is for one of img's layers.
func isLayer(t testing.TB, r *http.Request, img v1.Image) bool {
	layers, err := img.Layers()
	if err != nil {
		t.Error(err)
	}
	for _, l := range layers {
		d, err := l.Digest()
		if err != nil {
			t.Error(err)
		}
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()) {
			return true
		}
	}
	return false
}

// What a registry does wrong, and what becomes of it.
func TestRegistryFailures(t *testing.T) {
	img := sampleImage(t)
	body := func(h http.Handler, r *http.Request) (int, []byte) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.Bytes()
	}
	for name, c := range map[string]struct {
		first func(h http.Handler, w http.ResponseWriter, r *http.Request, nth int64) bool // tells whether it answered
		want  Reason
		kind  diag.Kind
	}{
		"asked too often": {func(_ http.Handler, w http.ResponseWriter, _ *http.Request, nth int64) bool {
			return nth <= 3 && answerWith(w, 429)
		}, "", ""},
		"out of order": {func(_ http.Handler, w http.ResponseWriter, _ *http.Request, nth int64) bool {
			return nth%4 != 0 && answerWith(w, 503)
		}, "", ""},
		"always out of order": {func(_ http.Handler, w http.ResponseWriter, _ *http.Request, _ int64) bool { return answerWith(w, 500) }, Unreachable, diag.KindSandbox},
		"no such layer":       {func(_ http.Handler, w http.ResponseWriter, _ *http.Request, _ int64) bool { return answerWith(w, 404) }, Absent, diag.KindData},
		"not for you":         {func(_ http.Handler, w http.ResponseWriter, _ *http.Request, _ int64) bool { return answerWith(w, 403) }, Denied, diag.KindSandbox},
		"cut, goes on in the middle": {func(h http.Handler, w http.ResponseWriter, r *http.Request, nth int64) bool {
			from := 0
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-", from))
			}
			_, b := body(h, withoutRange(r))
			w.Header().Set("Content-Length", strconv.Itoa(len(b)-from))
			if from > 0 {
				w.WriteHeader(http.StatusPartialContent)
			}
			if nth <= 2 {
				cut(w, b[from:from+20])
			}
			w.Write(b[from:])
			return true
		}, "", ""},
		"cut, starts again": {func(h http.Handler, w http.ResponseWriter, r *http.Request, nth int64) bool {
			_, b := body(h, withoutRange(r))
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			if nth <= 2 {
				cut(w, b[:20+nth])
			}
			w.Write(b)
			return true
		}, "", ""},
		"another place than asked for": {func(h http.Handler, w http.ResponseWriter, r *http.Request, nth int64) bool {
			_, b := body(h, withoutRange(r))
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes 0-")
				w.WriteHeader(http.StatusPartialContent)
				w.Write(b)
				return true
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			cut(w, b[:20])
			return true
		}, Changed, diag.KindSandbox},
		"other bytes": {func(h http.Handler, w http.ResponseWriter, r *http.Request, _ int64) bool {
			_, b := body(h, r)
			b = bytes.Clone(b)
			b[len(b)/2] ^= 1
			w.Write(b)
			return true
		}, Changed, diag.KindSandbox},
		"more bytes": {func(h http.Handler, w http.ResponseWriter, r *http.Request, _ int64) bool {
			_, b := body(h, r)
			w.Write(append(bytes.Clone(b), b...))
			return true
		}, Changed, diag.KindSandbox},
		"something else": {func(h http.Handler, w http.ResponseWriter, r *http.Request, _ int64) bool {
			w.Write([]byte("<html>please log in</html>"))
			return true
		}, Changed, diag.KindSandbox},
		"HTTPS to HTTP elsewhere": {func(h http.Handler, w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.Redirect(w, r, "/v2/somewhere", http.StatusFound)
			return true
		}, Absent, diag.KindData},
	} {
		t.Run(name, func(t *testing.T) {
			var nth sync.Map // by path
			var failing atomic.Bool
			address := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if failing.Load() && isLayer(t, r, img) {
						n, _ := nth.LoadOrStore(r.URL.Path, new(atomic.Int64))
						if c.first(h, w, r, n.(*atomic.Int64).Add(1)) {
							return
						}
					}
					h.ServeHTTP(w, r)
				})
			}) + "/acme/tool:1"
			push(t, address, img)
			failing.Store(true)
			dir := t.TempDir()
			i, err := open(t, dir, Options{}).Pull(t.Context(), address)
			if reasonOf(err) != c.want || err != nil && diag.KindOf(err) != c.kind {
				t.Fatalf("%v (%s, %s), want %s", err, reasonOf(err), diag.KindOf(err), c.want)
			}
			if err == nil {
				i.Close()
				return
			}
			if !strings.HasPrefix(err.Error(), "pull image: "+address+": layer sha256:") {
				t.Errorf("%v", err)
			}
			for _, d := range []string{"images", "refs", "leases", "tmp"} {
				if left, _ := os.ReadDir(filepath.Join(dir, "user", d)); len(left) > 0 {
					t.Errorf("left in %s: %v", d, left)
				}
			}
		})
	}
}

// cut sends some bytes and breaks the connection.
func cut(w http.ResponseWriter, b []byte) {
	w.Write(b)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func answerWith(w http.ResponseWriter, code int) bool {
	w.WriteHeader(code)
	return true
}

func withoutRange(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	return r
}

func TestReferencesThatAreNone(t *testing.T) {
	address := serve(t, nil)
	push(t, address+"/acme/tool:1", sampleImage(t))
	s := open(t, t.TempDir(), Options{})
	for reference, want := range map[string]Reason{
		"": Invalid, "A B": Invalid, address + "/acme/tool@sha256:12": Invalid, address + "/acme/tool:2": Absent, address + "/acme/other:1": Absent,
		address + "/acme/tool@sha256:" + strings.Repeat("0", 64): Absent,
	} {
		if _, err := s.Pull(t.Context(), reference); reasonOf(err) != want || diag.KindOf(err) != diag.KindData {
			t.Errorf("%q: %v (%s), want %s", reference, err, reasonOf(err), want)
		}
	}
}

// Credentials come from docker's configuration.
func TestCredentials(t *testing.T) {
	address := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); r.Method == http.MethodGet && (user != "ann" || password != "secret") {
				w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	login := func(password string) {
		dir := t.TempDir()
		text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, address, base64.StdEncoding.EncodeToString([]byte("ann:"+password)))
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("DOCKER_CONFIG", dir)
	}
	login("secret")
	ref, err := name.ParseReference(address + "/acme/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, sampleImage(t), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		t.Fatal(err)
	}
	pull(t, open(t, t.TempDir(), Options{}), ref.Name())
	login("wrong")
	if _, err := open(t, t.TempDir(), Options{}).Pull(t.Context(), ref.Name()); reasonOf(err) != Denied || diag.KindOf(err) != diag.KindSandbox {
		t.Errorf("%v", err)
	}
}

// journal is a log that tests read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// Mirrors come first, and what they do not have or have otherwise comes from the next.
func TestMirrors(t *testing.T) {
	img := sampleImage(t)
	var asked atomic.Int64
	origin := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isLayer(t, r, img) {
				asked.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	})
	push(t, origin+"/acme/tool:1", img)
	good := serve(t, nil)
	push(t, good+"/hub/acme/tool:1", img)
	bad := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isLayer(t, r, img) {
				got := httptest.NewRecorder()
				h.ServeHTTP(got, r)
				b := bytes.Clone(got.Body.Bytes())
				b[len(b)-1] ^= 1
				w.Write(b)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	push(t, bad+"/acme/tool:1", img)
	for name, c := range map[string]struct {
		mirrors []string
		asked   int64
		log     string
	}{
		"a good one":       {[]string{good + "/hub"}, 0, ""},
		"one without it":   {[]string{serve(t, nil), good + "/hub"}, 0, "a mirror does not give the image"},
		"one that is gone": {[]string{"127.0.0.1:1"}, 2, "a mirror does not give the image"},
		"one that lies":    {[]string{bad, good + "/hub"}, 0, "other bytes than asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			var j journal
			s := open(t, t.TempDir(), Options{Mirrors: map[string][]string{origin: c.mirrors}, Log: j.logger()})
			i, err := s.Pull(t.Context(), origin+"/acme/tool:1")
			if err != nil {
				t.Fatal(err)
			}
			i.Close()
			if asked.Load() != c.asked || !strings.Contains(j.String(), c.log) {
				t.Errorf("the origin was asked %d times, log %s", asked.Load(), j.String())
			}
		})
	}
	for _, m := range []string{"no-host/x", "UPPER.example/Case"} {
		if _, err := Open(t.TempDir(), Options{Mirrors: map[string][]string{"docker.io": {m}}}); diag.KindOf(err) != diag.KindConfig {
			t.Errorf("mirror %q: %v", m, err)
		}
	}
}

// A tag that was pulled works without its registry, and the log says so. A digest never
// needs it again.
func TestOffline(t *testing.T) {
	var down atomic.Bool
	var requests atomic.Int64
	address := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if down.Load() {
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	}) + "/acme/tool"
	digest := push(t, address+":1", sampleImage(t))
	var j journal
	s := open(t, t.TempDir(), Options{Log: j.logger()})
	pull(t, s, address+":1")
	pull(t, s, address+"@"+digest)
	down.Store(true)
	before := requests.Load()
	if i := pull(t, s, address+"@"+digest); i.Digest != digest || requests.Load() != before {
		t.Errorf("%s after %d requests", i.Digest, requests.Load()-before)
	}
	if i := pull(t, s, address+":1"); i.Digest != digest || !strings.Contains(j.String(), "the registry does not answer") {
		t.Errorf("%s, log %s", i.Digest, j.String())
	}
	if _, err := s.Pull(t.Context(), address+":2"); reasonOf(err) != Unreachable {
		t.Errorf("%v", err)
	}
}

// Of an index comes the entry for this machine, and a tag that moves is followed.
func TestIndex(t *testing.T) {
	address := serve(t, nil) + "/acme/tool:1"
	img := sampleImage(t)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: built(t, v1.Config{}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	ref, err := name.ParseReference(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	want, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, t.TempDir(), Options{})
	if i := pull(t, s, address); i.Digest != want.String() {
		t.Errorf("%s, want %s", i.Digest, want)
	}
	other := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}})
	if err := remote.WriteIndex(ref, other); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), address); reasonOf(err) != Absent || !strings.Contains(err.Error(), "linux/s390x") {
		t.Errorf("%v", err)
	}
}

// Two processes that pull one image at once fetch each layer once between them.
func TestTwoProcesses(t *testing.T) {
	img := sampleImage(t)
	var layers, manifests atomic.Int64
	both := make(chan struct{})
	address := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/manifests/1") && manifests.Add(1) == 2 {
				close(both)
			}
			if isLayer(t, r, img) {
				<-both
				layers.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	}) + "/acme/tool:1"
	push(t, address, img)
	dir := t.TempDir()
	type result struct {
		out []byte
		err error
	}
	results := make(chan result)
	for range 2 {
		c := helper(t, "pull", dir, address)
		go func() {
			out, err := c.Output()
			results <- result{out, err}
		}()
	}
	a, b := <-results, <-results
	if a.err != nil || b.err != nil || string(a.out) != string(b.out) || len(bytes.Fields(a.out)) != 2 {
		t.Errorf("%s %v, %s %v", a.out, a.err, b.out, b.err)
	}
	if layers.Load() != 2 {
		t.Errorf("%d layers were fetched", layers.Load())
	}
}

// A process killed in the middle leaves nothing that the next one does not clear away,
// and what it had finished is not fetched again.
func TestKilled(t *testing.T) {
	img := sampleImage(t)
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	second, err := layers[1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	size, err := layers[1].Size()
	if err != nil {
		t.Fatal(err)
	}
	var fetched atomic.Int64
	var hang atomic.Bool
	hang.Store(true)
	hangs := make(chan struct{})
	gone := make(chan struct{})
	address := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isLayer(t, r, img) {
				fetched.Add(1)
				if strings.HasSuffix(r.URL.Path, second.String()) && hang.Load() {
					w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
					w.Write([]byte("\x1f\x8b\x08"))
					w.(http.Flusher).Flush()
					close(hangs)
					<-gone
					return
				}
			}
			h.ServeHTTP(w, r)
		})
	}) + "/acme/tool:1"
	push(t, address, img)
	dir := t.TempDir()
	c := helper(t, "pull", dir, address, "say")
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-hangs
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	close(gone)
	hang.Store(false)
	if left, _ := os.ReadDir(filepath.Join(dir, "user", "tmp")); len(left) == 0 {
		t.Error("nothing was under way")
	}
	s := open(t, dir, Options{})
	for _, d := range []string{"tmp", "leases"} {
		if left, _ := os.ReadDir(filepath.Join(dir, "user", d)); len(left) != 0 {
			t.Errorf("left in %s: %v", d, left)
		}
	}
	before := fetched.Load()
	if i := pull(t, s, address); len(i.Layers) != 2 {
		t.Errorf("%q", i.Layers)
	}
	if n := fetched.Load() - before; n != 1 {
		t.Errorf("%d layers were fetched again", n)
	}
}

// What is in use stays, whoever uses it; the rest goes, longest unused first.
func TestCollection(t *testing.T) {
	host := serve(t, nil)
	shared := archive(t, file("base", strings.Repeat("b", 100<<10)))
	images := map[string]v1.Image{}
	for _, n := range []string{"a", "b", "c"} {
		images[n] = built(t, v1.Config{}, shared, archive(t, file(n, strings.Repeat(n, 100<<10))))
		push(t, host+"/acme/"+n+":1", images[n])
	}
	dir := t.TempDir()
	kept := func() string {
		var names []string
		for n, img := range images {
			d, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "user", "images", d.Hex)); err == nil {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		layers, err := os.ReadDir(filepath.Join(dir, "user", "layers"))
		if err != nil {
			t.Fatal(err)
		}
		refs, err := os.ReadDir(filepath.Join(dir, "user", "refs"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s, %d layers, %d refs", strings.Join(names, " "), len(layers), len(refs))
	}
	holder := helper(t, "pull", dir, host+"/acme/a:1")
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	// Room for the base and two layers above it.
	s := open(t, dir, Options{Size: 350 << 10})
	b, err := s.Pull(t.Context(), host+"/acme/b:1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Pull(t.Context(), host+"/acme/c:1")
	if err != nil {
		t.Fatal(err)
	}
	if got := kept(); got != "a b c, 4 layers, 3 refs" {
		t.Errorf("all in use: %s", got)
	}
	b.Close()
	b.Close()
	if err := s.Collect(t.Context()); err != nil || kept() != "a c, 3 layers, 2 refs" {
		t.Errorf("after b: %s, %v", kept(), err)
	}
	for _, l := range strings.Fields(line) {
		if _, err := os.Stat(l); err != nil {
			t.Errorf("in use by another process: %v", err)
		}
	}
	input.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	pull(t, s, host+"/acme/b:1")
	if got := kept(); got != "b c, 3 layers, 2 refs" {
		t.Errorf("after a: %s", got)
	}
	c.Close()
	if err := open(t, dir, Options{Size: 1}).Collect(t.Context()); err != nil || kept() != "b, 2 layers, 1 refs" {
		t.Errorf("b alone in use: %s, %v", kept(), err)
	}
}

// An image whose configuration calls its layers by other names would spoil what others
// share.
func TestLayersThatAreOthers(t *testing.T) {
	address := serve(t, nil) + "/acme/tool:1"
	img := sampleImage(t)
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	slices.Reverse(c.RootFS.DiffIDs)
	swapped, err := mutate.ConfigFile(img, c)
	if err != nil {
		t.Fatal(err)
	}
	push(t, address, swapped)
	dir := t.TempDir()
	if _, err := open(t, dir, Options{}).Pull(t.Context(), address); reasonOf(err) != Malformed || !strings.Contains(err.Error(), "the configuration names sha256:") {
		t.Errorf("%v", err)
	}
	nothingLeft(t, dir)
}

// An image of forty layers, of which some are the same.
func TestManyLayers(t *testing.T) {
	if err := mountable(t, Form{}); err != nil {
		t.Skipf("overlays cannot be mounted here: %v", err)
	}
	var archives [][]byte
	for n := range 40 {
		a := archive(t, file(fmt.Sprint("own/", n), "x"), file("shared", fmt.Sprint(n)))
		if n%4 == 3 {
			a = archive(t)
		}
		archives = append(archives, a)
	}
	address := serve(t, nil) + "/acme/tool:1"
	push(t, address, built(t, v1.Config{}, archives...))
	i := pull(t, open(t, t.TempDir(), Options{}), address)
	if len(i.Layers) != 31 {
		t.Errorf("%d layers", len(i.Layers))
	}
	seen, err := mounted(t, i.Layers, Form{})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 32 || seen[len(seen)-1].Size != 2 {
		t.Errorf("seen\n%s", render(seen))
	}
	if _, err := open(t, t.TempDir(), Options{Limits: Limits{Layers: 39}}).Pull(t.Context(), address); reasonOf(err) != TooLarge {
		t.Errorf("%v", err)
	}
}

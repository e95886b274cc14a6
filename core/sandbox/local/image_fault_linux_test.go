package local

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
	"github.com/valence-rl/valence/sdk"
)

// front stands before a registry: it counts requests, and answers those that answer takes.
type front struct {
	asked  atomic.Int64 // for manifests by tag
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request) bool
}

func (f *front) between(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/manifests/1") {
			f.asked.Add(1)
		}
		f.mu.Lock()
		answer := f.answer
		f.mu.Unlock()
		if answer == nil || !answer(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

func (f *front) set(answer func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		w.WriteHeader(code)
		return true
	}
}

func on(ref string) sandbox.Spec {
	return sandbox.Spec{Name: "episode", Workspace: sdk.Workspace{Image: ref}}
}

// Whatever keeps an image from being there is an error of its kind that says what to do,
// and where it passes the next sandbox gets the image.
func TestImageFaults(t *testing.T) {
	f := &front{}
	host := imagetest.Serve(t, f.between)
	good := imagetest.Image(t, v1.Config{}, base(t))
	imagetest.Push(t, host+"/good:1", good)
	unsafe := imagetest.Push(t, host+"/unsafe:1", imagetest.Image(t, v1.Config{}, imagetest.Layer(t, imagetest.File("../x", "x"))))
	garbled := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		w.Write([]byte("other bytes"))
		return true
	}
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	for _, c := range []struct {
		name, ref, code string
		answer          func(http.ResponseWriter, *http.Request) bool
		kind            diag.Kind
		remedy          string
		passes          bool
		pull            time.Duration
	}{
		{"no such image", host + "/none:1", "S004", nil, diag.KindData, host, false, 0},
		{"no reference", "No Reference", "S004", nil, diag.KindData, "repository:tag", false, 0},
		{"unsafe", host + "/unsafe@" + unsafe, "S008", nil, diag.KindData, "build it anew", false, 0},
		{"unauthorised", host + "/good:1", "S005", status(401), diag.KindSandbox, "docker login " + host, true, 0},
		{"down", host + "/good:1", "S006", status(503), diag.KindSandbox, "prewarm", true, 0},
		{"nobody there", "127.0.0.1:1/good:1", "S006", nil, diag.KindSandbox, "prewarm", false, 0},
		{"other bytes", host + "/good:1", "S007", garbled, diag.KindSandbox, "try again", true, 0},
		{"too slow", host + "/good:1", "S015", hang, diag.KindSandbox, "[sandbox.images] timeout", true, 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := imageDriver(t, Options{Images: storeIn(t.TempDir(), image.Options{Pause: time.Nanosecond}), Pull: c.pull})
			f.set(c.answer)
			_, err := d.Create(t.Context(), on(c.ref))
			f.set(nil)
			var out *diag.Diagnostic
			if !errors.As(err, &out) || out.Code != c.code || out.Kind != c.kind || diag.KindOf(err) != c.kind {
				t.Fatalf("want %s of kind %s, got %v (%s)", c.code, c.kind, err, diag.KindOf(err))
			}
			if !strings.Contains(out.Summary, c.ref) || !strings.Contains(out.Hint, c.remedy) || !strings.Contains(err.Error(), "episode") {
				t.Errorf("got %v", err)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v passes for the caller's own context", err)
			}
			d.images.timeout = time.Minute
			if b, err := d.Create(t.Context(), on(c.ref)); (err == nil) != c.passes {
				t.Errorf("after that: %v", err)
			} else if err == nil {
				shell(t, b, "true")
			}
		})
	}
}

// A store that has no room says so, and has room again when there is some.
func TestImageStoreIsFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can make a small file system; nothing was tried")
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("scratch-store", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	d := imageDriver(t, Options{Images: storeIn(dir, image.Options{})})
	ref := saved(t, v1.Config{}, base(t))
	_, err := d.Create(t.Context(), on(ref))
	var out *diag.Diagnostic
	if !errors.As(err, &out) || out.Code != "S009" || diag.KindOf(err) != diag.KindSandbox || !strings.Contains(out.Hint, "[sandbox.images] store") {
		t.Fatalf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "tmp", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	shell(t, mustCreate(t, d, on(ref)), "true")
}

// However many sandboxes want an image at once, it is pulled once; and a tag leads to the
// same image for as long as the driver lives.
func TestImageIsPulledOnce(t *testing.T) {
	f := &front{}
	host := imagetest.Serve(t, f.between)
	ref := host + "/tool:1"
	imagetest.Push(t, ref, imagetest.Image(t, v1.Config{}, base(t)))
	d := imageDriver(t, Options{})
	f.asked.Store(0)
	boxes := make([]sandbox.Sandbox, 12)
	var all sync.WaitGroup
	for i := range boxes {
		all.Go(func() {
			var err error
			if boxes[i], err = d.Create(t.Context(), on(ref)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	digest := boxes[0].(*box).picture.image.Digest
	for _, b := range boxes {
		if b.(*box).picture != boxes[0].(*box).picture {
			t.Error("the image was opened twice")
		}
		b.Close()
		<-b.(*box).dead
	}
	if n := f.asked.Load(); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
	imagetest.Push(t, ref, imagetest.Image(t, v1.Config{}, base(t), imagetest.Layer(t, imagetest.File("new", "x"))))
	// The image is kept for a while; and not kept, it is the same one all the same.
	for _, idle := range []int{maxIdle, 0} {
		f.set(status(500))
		d.images.idle = idle
		b := mustCreate(t, d, on(ref))
		if got := b.(*box).picture.image.Digest; got != digest {
			t.Errorf("the tag has changed to %s within a run", got)
		}
		b.Close()
		<-b.(*box).dead
	}
	if d.images.unused.Len() != 0 || len(d.images.known) != 0 {
		t.Errorf("%d images are kept, %d unused", len(d.images.known), d.images.unused.Len())
	}
}

// A pull that nobody waits for any more ends, and so does one whose driver is closed.
func TestImagePullIsGivenUp(t *testing.T) {
	f := &front{}
	host := imagetest.Serve(t, f.between)
	imagetest.Push(t, host+"/tool:1", imagetest.Image(t, v1.Config{}, base(t)))
	d := imageDriver(t, Options{})
	asked, ended := make(chan struct{}), make(chan struct{})
	f.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		asked <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
		return true
	})
	results := make(chan error, 2)
	first, cancel := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	for _, ctx := range []context.Context{first, second} {
		go func() {
			_, err := d.Create(ctx, on(host+"/tool:1"))
			results <- err
		}()
	}
	<-asked
	for waits := 0; waits < 2; {
		d.images.mu.Lock()
		if p := d.images.known[host+"/tool:1"]; p != nil {
			waits = p.uses
		}
		d.images.mu.Unlock()
	}
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-ended:
		t.Error("the pull ended although somebody waits for it")
	default:
	}
	cancelSecond()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
	// Another one begins anew, and ends with the driver.
	go func() {
		_, err := d.Create(t.Context(), on(host+"/tool:1"))
		results <- err
	}()
	<-asked
	go func() { <-ended }()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-results; diag.KindOf(err) != diag.KindSandbox {
		t.Errorf("got %v", err)
	}
}

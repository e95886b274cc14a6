package local

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// images opens each image once for all sandboxes, and keeps those used last.
type images struct {
	store   func() (*image.Store, error)
	timeout time.Duration // of a pull
	idle    int           // how many to keep that no sandbox has
	base    string        // may lie anywhere
	folders []string      // in which other images of this machine may lie

	log  *slog.Logger
	life context.Context // of all pulls
	stop context.CancelCauseFunc

	mu      sync.Mutex
	known   map[string]*picture
	digests map[string]string // what a reference led to: one driver never changes its mind
	unused  *list.List        // of *picture, the one used last in front
	pulls   sync.WaitGroup
}

// picture is an image that sandboxes share.
type picture struct {
	ref  string
	uses int

	place  *list.Element // in unused
	cancel context.CancelFunc
	done   bool
	ready  chan struct{} // closed when what follows is set
	image  *image.Image
	err    error

	looking sync.Mutex
	seen    map[string]folder // by the path that workspaces have
}

// maxIdle is how many images are kept open that no sandbox has. It costs a file each.
const maxIdle = 64

// errClosed is why pulls end with the driver.
var errClosed = errors.New("the driver is closed")

func newImages(o Options) *images {
	s := &images{store: o.Images, timeout: o.Pull, idle: maxIdle, base: o.Image, folders: o.ImageFolders,
		known: map[string]*picture{}, digests: map[string]string{}, unused: list.New()}
	if s.log = o.Log; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.timeout <= 0 {
		s.timeout = 30 * time.Minute
	}
	s.life, s.stop = context.WithCancelCause(context.Background())
	return s
}

// onImage holds a driver to its base image.
func (d *Driver) onImage() error {
	if d.bare {
		return errBare(d.base)
	}
	if d.images.store == nil {
		return diag.Errorf(diag.KindSandbox, "start local sandboxes", d.base, "no store of images was given")
	}
	d.isolation.Missing = append(d.isolation.Missing, "tool chain: the image's files can be changed, for this sandbox only")
	return nil
}

// Image is what workspaces that name no image are laid on; "": the host's tool chain.
func (d *Driver) Image() string { return d.base }

// Prepare gets an image, so that sandboxes need not wait for it. It blocks until the
// image is there or cannot be had; see sandbox.Driver's Create for errors.
func (d *Driver) Prepare(ctx context.Context, ref string) error {
	if d.bare {
		return errBare(ref)
	}
	p, err := d.images.take(ctx, ref)
	if err == nil {
		d.images.give(p)
	}
	return err
}

// errBare is why a sandbox without namespaces has no image.
func errBare(ref string) error {
	return &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S014",
		Summary: fmt.Sprintf("image %s: sandboxes without namespaces have no root of their own to put it in", ref),
		Hint:    "allow namespaces, as `valence doctor` says, and leave [sandbox] bare out"}
}

// Form is that of the layers that drivers of this process can mount: see image.Options.
func Form() image.Form {
	if privileged() {
		return image.Form{Base: firstID, Range: idCount}
	}
	return image.Form{}
}

// take gives the image of a reference, which the caller returns by give. The first who
// asks has it pulled, and the others wait; it goes on until nobody waits. An image that
// was refused for what it is stays refused.
func (s *images) take(ctx context.Context, ref string) (*picture, error) {
	s.mu.Lock()
	p := s.known[ref]
	if p == nil {
		p = &picture{ref: ref, ready: make(chan struct{}), seen: map[string]folder{}}
		s.known[ref] = p
		late := &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S015", Summary: fmt.Sprintf("image %s: it was not there within %s", ref, s.timeout),
			Hint: "give it longer by [sandbox.images] timeout, or pull before the run: valence sandbox prewarm"}
		within, cancel := context.WithTimeoutCause(s.life, s.timeout, late)
		p.cancel = cancel
		s.pulls.Go(func() { s.pull(within, p) })
	}
	if p.uses++; p.place != nil {
		s.unused.Remove(p.place)
		p.place = nil
	}
	s.mu.Unlock()
	select {
	case <-p.ready:
	case <-ctx.Done():
		s.give(p)
		return nil, ctx.Err()
	}
	if p.err != nil {
		s.give(p)
		return nil, p.err
	}
	return p, nil
}

// give returns what take gave.
func (s *images) give(p *picture) {
	s.mu.Lock()
	p.uses--
	var old []*picture
	switch {
	case p.uses > 0:
	case !p.done:
		p.cancel() // nobody waits for it any more
		delete(s.known, p.ref)
	case p.err != nil:
		if diag.KindOf(p.err) != diag.KindData {
			delete(s.known, p.ref)
		}
	default:
		p.place = s.unused.PushFront(p)
		for s.unused.Len() > s.idle {
			last := s.unused.Remove(s.unused.Back()).(*picture)
			delete(s.known, last.ref)
			old = append(old, last)
		}
	}
	s.mu.Unlock()
	for _, o := range old {
		o.image.Close()
	}
}

// pull gets p's image.
func (s *images) pull(ctx context.Context, p *picture) {
	began := time.Now()
	i, err := s.get(ctx, p.ref)
	if err == nil {
		s.log.Info("an image is there", "image", p.ref, "digest", i.Digest, "layers", len(i.Layers), "bytes", i.Size, "took", time.Since(began).Round(time.Millisecond))
	}
	s.mu.Lock()
	p.cancel()
	p.image, p.err, p.done = i, err, true
	if err == nil {
		s.digests[p.ref] = i.Digest
	}
	abandoned := p.uses == 0
	s.mu.Unlock()
	if abandoned && i != nil {
		i.Close()
	}
	close(p.ready)
}

func (s *images) get(ctx context.Context, ref string) (*image.Image, error) {
	if err := s.allowed(ref); err != nil {
		return nil, err
	}
	if s.store == nil {
		return nil, diag.Errorf(diag.KindSandbox, "get image", ref, "no store of images was given")
	}
	store, err := s.store()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	digest := s.digests[ref]
	s.mu.Unlock()
	if digest != "" {
		if i, err := store.Reopen(ctx, digest); !errors.Is(err, fs.ErrNotExist) {
			return i, err
		}
	}
	return store.Get(ctx, ref)
}

// allowed refuses images of this machine but for those in the folders: who names an
// image may be a plugin or a data set, which must not have the machine's files shown.
func (s *images) allowed(ref string) error {
	p, is := image.Path(ref)
	if !is || ref == s.base {
		return nil
	}
	real, err := filepath.Abs(p)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		real = p
	}
	for _, f := range s.folders {
		if f, e := filepath.EvalSymlinks(f); e == nil && err == nil && within(real, f) {
			return nil
		}
	}
	return diag.Wrap(diag.KindData, "get image", ref, &diag.Diagnostic{
		Kind: diag.KindData, Code: "S013", Summary: fmt.Sprintf("image %s: a task may not name files of this machine", ref),
		Hint: "allow the folder that it lies in by [sandbox.images] folders, or push it to a registry",
	})
}

// close ends pulls and closes what is kept. No sandbox is alive.
func (s *images) close() error {
	s.stop(errClosed)
	s.pulls.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.known {
		if p.image != nil {
			errs = append(errs, p.image.Close())
		}
	}
	clear(s.known)
	return errors.Join(errs...)
}

// folder is what an image has where a workspace is to be.
type folder struct {
	place  string   // where the folder is when links are followed
	hidden []string // what belongs to version control in it
}

// look gives what the image has at dir. It looks once.
func (p *picture) look(dir string) (folder, error) {
	p.looking.Lock()
	defer p.looking.Unlock()
	if f, known := p.seen[dir]; known {
		return f, nil
	}
	v, err := p.image.View()
	if err != nil {
		return folder{}, diag.Wrap(diag.KindSandbox, "read image", p.ref, err)
	}
	defer v.Close()
	place, err := v.Resolve(dir)
	if err != nil {
		return folder{}, diag.Wrap(diag.KindData, "read image", p.ref, err)
	}
	if place == "/" || slices.ContainsFunc(mountPoints, func(d string) bool { return within(place, d) }) {
		return folder{}, diag.Errorf(diag.KindData, "read image", p.ref, "the workspace's directory %s is %s there, which is no place for it", dir, place)
	}
	f := folder{place: place}
	if e, err := v.Lstat(place); err == nil && e.IsFolder() {
		if f.hidden, err = v.Find(place, ".git"); err != nil {
			return folder{}, diag.Wrap(diag.KindSandbox, "read image", p.ref, err)
		}
	}
	p.seen[dir] = f
	return f, nil
}

// mostLayers is how many layers an image may have for root, whose trees come to the first
// process in one message.
const mostLayers = 240

// dress gives the box an image to be on, and what lies over it.
func (b *box) dress(ctx context.Context, ref string, w *sdk.Workspace) (err error) {
	d := b.driver
	if d.bare {
		return errBare(ref)
	}
	if b.picture, err = d.images.take(ctx, ref); err != nil {
		return err
	}
	i := b.picture.image
	if n := len(i.Layers); n > mostLayers && d.privileged {
		return diag.Wrap(diag.KindData, "get image", ref, &diag.Diagnostic{Kind: diag.KindData, Code: "S008",
			Summary: fmt.Sprintf("image %s: it has %d layers, sandboxes of root take %d", ref, n, mostLayers), Hint: "build it with fewer, or squash it"})
	}
	if b.Dir == "" {
		if b.Dir = i.WorkingDir; b.Dir == "/" {
			b.Dir = defaultDir
		}
	}
	in, err := b.picture.look(b.Dir)
	if err != nil {
		return err
	}
	b.place = in.place
	user := d.userOf(i.User)
	if user.UID != 0 {
		b.user = &user
	}
	b.Env = sandbox.MergeEnv(imageEnv(i), b.Env)
	b.space, err = d.spaces.cover(b.picture, in, user, w)
	return err
}

// userOf gives whom commands run as on an image whose user is u: root where there is but
// one id, and nobody for an id that is out of range.
func (d *Driver) userOf(u image.User) toolserver.User {
	if !d.privileged {
		return toolserver.User{}
	}
	id := func(n int) uint32 {
		if n < 0 || n >= idCount {
			n = 65534
		}
		return uint32(n)
	}
	out := toolserver.User{UID: id(u.UID), GID: id(u.GID)}
	for _, g := range u.Groups {
		out.Groups = append(out.Groups, id(g))
	}
	return out
}

// imageEnv are the variables of commands on an image, whatever the workspace says.
func imageEnv(i *image.Image) []string {
	name := i.User.Name
	if name == "" {
		name = strconv.Itoa(i.User.UID)
	}
	return sandbox.MergeEnv(
		[]string{"PATH=" + standardPath, "HOME=" + i.User.Home, "USER=" + name, "LOGNAME=" + name, "TERM=dumb"}, i.Env,
		// Images do not change these, so that runs repeat.
		[]string{"LANG=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"})
}

package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// add unpacks what is not there yet of an image and opens it.
func (s *Store) add(ctx context.Context, ref string, c *content) (*Image, error) {
	if i, err := s.use(ctx, c.digest, nil); !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	if n := len(c.layers); n > s.o.Limits.Layers {
		return nil, refuse(TooLarge, "it has %d layers, at most %d are taken", n, s.o.Limits.Layers)
	}
	h := holding{Image: c.digest}
	for _, l := range c.layers {
		if l.diffID != "" {
			h.Layers = append(h.Layers, digits(l.diffID))
		}
	}
	var held *lease
	err := s.locked(ctx, func() (err error) {
		held, err = s.take(h)
		return err
	})
	if err != nil {
		return nil, err
	}
	i, err := s.complete(ctx, ref, c, held)
	if err != nil {
		return nil, errors.Join(err, held.end())
	}
	return i, nil
}

// complete gets the layers, then the image, under a lease that names them.
func (s *Store) complete(ctx context.Context, ref string, c *content, held *lease) (*Image, error) {
	b := &budget{limits: s.o.Limits}
	p := s.progress(ref, c.layers)
	ids := make([]string, len(c.layers))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(s.o.Parallel)
	for i, l := range c.layers {
		group.Go(func() (err error) {
			ids[i], err = s.ensure(within, l, held, b, func(done int64) { p.at(i, done) })
			if err == nil {
				p.ready(i)
			}
			return failed("", l.subject(), err)
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if err := s.finish(ctx, c, ids, b); err != nil {
		return nil, err
	}
	return s.use(ctx, c.digest, held)
}

// ensure unpacks a layer unless it is there, and gives its id.
func (s *Store) ensure(ctx context.Context, l layer, held *lease, b *budget, report func(int64)) (string, error) {
	if l.diffID != "" {
		// One makes it, and whoever else needs it waits.
		making, err := lock(ctx, s.path("locks", digits(l.diffID)[:2]))
		if err != nil {
			return "", err
		}
		defer making.Close()
		n, err := s.readNote(digits(l.diffID))
		if err == nil {
			return digits(l.diffID), errors.Join(b.spendEntries(n.Entries), b.spendBytes(n.Bytes))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	for source := 0; ; source++ {
		id, err := s.make(ctx, l, source, held, b, report)
		if reasonOf(err) != Changed || source+1 >= l.sources {
			return id, err
		}
		s.o.Log.Warn("a mirror gives other bytes than asked for, the next source is asked", "layer", l.digest, "cause", err)
	}
}

// make unpacks a layer from one of its sources.
func (s *Store) make(ctx context.Context, l layer, source int, held *lease, b *budget, report func(int64)) (string, error) {
	sc, err := s.scratch(ctx)
	if err != nil {
		return "", err
	}
	defer sc.discard()
	tree := filepath.Join(sc.dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", err
	}
	n, diffID, err := l.unpackInto(ctx, source, tree, s.o.Form, s.marks, b, report)
	if err != nil {
		return "", err
	}
	id := digits(diffID)
	if n.Devices+n.Attributes+n.Strangers > 0 {
		s.o.Log.Info("an image's layer is unpacked, but for some of it", "layer", diffID,
			"devices left out", n.Devices, "attributes left out", n.Attributes, "owners out of range", n.Strangers)
	}
	if err := writeFile(filepath.Join(sc.dir, "note.json"), n); err != nil {
		return "", err
	}
	if err := sc.flush(); err != nil {
		return "", err
	}
	return id, s.locked(ctx, func() error {
		if h := held.held; !slices.Contains(h.Layers, id) {
			h.Layers = append(slices.Clip(h.Layers), id)
			if err := held.set(h); err != nil {
				return err
			}
		}
		return sc.publish(s.path("layers", id))
	})
}

// finish makes the image of layers that are there; ids has the lowest first.
func (s *Store) finish(ctx context.Context, c *content, ids []string, b *budget) error {
	sc, err := s.scratch(ctx)
	if err != nil {
		return err
	}
	defer sc.discard()
	r := &record{
		Digest: c.digest, Env: c.config.run.Env, WorkingDir: c.config.workingDir(),
		Entrypoint: c.config.run.Entrypoint, Cmd: c.config.run.Cmd,
	}
	var dirs []string
	var notes []*note
	for _, id := range slices.Backward(ids) {
		if slices.Contains(r.Layers, id) {
			// Overlay refuses a folder twice, and what a layer changes it need not change twice.
			continue
		}
		n, err := s.readNote(id)
		if err != nil {
			return err
		}
		r.Layers = append(r.Layers, id)
		r.Disk += n.Disk
		dirs = append(dirs, s.layer(id))
		notes = append(notes, n)
		if n.Opaque {
			break
		}
	}
	st, err := openStack(dirs, notes)
	if err != nil {
		return err
	}
	defer st.close()
	r.TrimDisk, err = trim(st, notes, filepath.Join(sc.dir, "trim"), s.o.Form, b)
	if err != nil {
		return err
	}
	r.Trim = r.TrimDisk > 0
	if needsFloor(notes) {
		r.Floor = true
		r.TrimDisk += blockSize
		if err := os.Mkdir(filepath.Join(sc.dir, "floor"), 0o755); err != nil {
			return err
		}
	}
	r.Disk += r.TrimDisk
	if r.User, err = userOf(st, c.config.run.User); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(sc.dir, "image.json"), r); err != nil {
		return err
	}
	if err := sc.flush(); err != nil {
		return err
	}
	return s.locked(ctx, func() error { return sc.publish(s.path("images", digits(c.digest))) })
}

// needsFloor tells whether an empty folder has to go under layers, the topmost first:
// overlay shows the whiteouts of the lowest layer where they are attributes.
func needsFloor(notes []*note) bool {
	return len(notes) == 0 || len(notes[len(notes)-1].Whiteouts) > 0
}

func userOf(st *stack, user string) (User, error) {
	passwd, err := st.read("etc/passwd")
	if err != nil {
		return User{}, err
	}
	group, err := st.read("etc/group")
	if err != nil {
		return User{}, err
	}
	return resolveUser(user, passwd, group)
}

// progress collects how far an image's layers are.
type progress struct {
	store *Store
	mu    sync.Mutex
	now   Progress
	told  []int64 // how much of each layer was last reported
}

func (s *Store) progress(ref string, layers []layer) *progress {
	p := &progress{store: s, now: Progress{Ref: ref}, told: make([]int64, len(layers))}
	for _, l := range layers {
		size := max(l.size, 0)
		p.now.Total += size
		p.now.Layers = append(p.now.Layers, LayerProgress{Digest: l.digest, Total: size})
	}
	return p
}

// reportEvery is how many bytes of a layer make a report.
const reportEvery = 1 << 20

func (p *progress) at(i int, done int64) {
	if p.store.o.Progress == nil || done-p.told[i] < reportEvery {
		return
	}
	p.set(i, func(l *LayerProgress) { l.Done = done })
}

// ready is called once for each layer, also for one that was there.
func (p *progress) ready(i int) {
	p.set(i, func(l *LayerProgress) { l.Done, l.Ready = l.Total, true })
}

func (p *progress) set(i int, change func(*LayerProgress)) {
	if p.store.o.Progress == nil {
		return
	}
	p.mu.Lock()
	l := &p.now.Layers[i]
	before := l.Done
	change(l)
	p.now.Done += l.Done - before
	p.told[i] = l.Done
	now := p.now.clone()
	p.mu.Unlock()
	p.store.reporting.Lock()
	defer p.store.reporting.Unlock()
	p.store.o.Progress(now)
}

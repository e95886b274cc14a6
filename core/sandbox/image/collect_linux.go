package image

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// item is something that can be removed: an image, or a layer that no image has.
type item struct {
	image  *record // nil: a layer alone
	layers []string
	used   time.Time
	leased bool
}

// Collect removes what was not used for longest until the store is within its size. What
// is in use, by whatever process, stays. Pull and Import do it when they are done.
func (s *Store) Collect(ctx context.Context) error {
	return failed("collect images", s.dir, s.collect(ctx))
}

// Clear removes all that is not in use.
func (s *Store) Clear(ctx context.Context) error {
	return failed("clear images", s.dir, s.shrink(ctx, 0))
}

// List gives the images that are kept, those used last first.
func (s *Store) List(ctx context.Context) ([]Kept, error) {
	var all []Kept
	err := s.locked(ctx, func() error {
		items, _, err := s.items()
		if err != nil {
			return err
		}
		names, err := s.names()
		if err != nil {
			return err
		}
		for _, it := range items {
			if r := it.image; r != nil && len(r.Layers) > 0 {
				all = append(all, Kept{Digest: r.Digest, Refs: names[r.Digest], Size: r.Disk, Layers: len(r.Layers), Used: it.used, InUse: it.leased})
			}
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b Kept) int { return b.Used.Compare(a.Used) })
	return all, failed("list images", s.dir, err)
}

// names gives the references that led to images, by digest. The store is locked.
func (s *Store) names() (map[string][]string, error) {
	refs, err := os.ReadDir(s.path("refs"))
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, e := range refs {
		r, err := readRef(s.path("refs", e.Name()))
		if err != nil {
			return nil, err
		}
		out[r.Image] = append(out[r.Image], r.Ref)
	}
	for _, n := range out {
		slices.Sort(n)
	}
	return out, nil
}

func (s *Store) collect(ctx context.Context) error { return s.shrink(ctx, s.o.Size) }

// shrink removes what was not used for longest until no more than most bytes are left.
func (s *Store) shrink(ctx context.Context, most int64) error {
	var gone []string
	err := s.locked(ctx, func() error {
		items, disk, err := s.items()
		if err != nil {
			return err
		}
		stay := map[string]bool{}
		total := int64(0)
		full := false
		var drop []item
		for _, it := range items {
			more := int64(0)
			if it.image != nil {
				more = it.image.TrimDisk
			}
			for _, id := range it.layers {
				if !stay[id] {
					more += disk[id]
				}
			}
			if full = full || total+more > most; full && !it.leased {
				drop = append(drop, it)
				continue
			}
			total += more
			for _, id := range it.layers {
				stay[id] = true
			}
		}
		// The images first: one whose layers are gone must not be found.
		for _, it := range drop {
			if it.image != nil {
				if err := s.away(s.path("images", digits(it.image.Digest)), &gone); err != nil {
					return err
				}
			}
		}
		for id := range disk {
			if !stay[id] {
				if err := s.away(s.path("layers", id), &gone); err != nil {
					return err
				}
			}
		}
		if len(drop) > 0 {
			return s.dropRefs()
		}
		return nil
	})
	// Out of the way they are nobody's, and take their time.
	for _, dir := range gone {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// items lists what is in the store, what is in use first and then by last use, and the
// disk of every layer. The store is locked.
func (s *Store) items() ([]item, map[string]int64, error) {
	held, err := s.leased()
	if err != nil {
		return nil, nil, err
	}
	inUse := map[string]bool{}
	for _, h := range held {
		inUse[digits(h.Image)] = true
		for _, id := range h.Layers {
			inUse[id] = true
		}
	}
	var items []item
	owned := map[string]bool{}
	images, err := os.ReadDir(s.path("images"))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range images {
		used, err := modified(s.path("images", e.Name(), "image.json"))
		if err != nil {
			return nil, nil, err
		}
		r, err := s.readRecord(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			r, err = &record{Digest: e.Name()}, nil // somebody removed a layer of it
		}
		if err != nil {
			return nil, nil, err
		}
		for _, id := range r.Layers {
			owned[id] = true
		}
		items = append(items, item{r, r.Layers, used, inUse[e.Name()]})
	}
	disk := map[string]int64{}
	layers, err := os.ReadDir(s.path("layers"))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range layers {
		id := e.Name()
		n, err := s.readNote(id)
		if err != nil {
			return nil, nil, err
		}
		disk[id] = n.Disk
		if owned[id] && !inUse[id] {
			continue
		}
		used, err := modified(s.path("layers", id, "note.json"))
		if err != nil {
			return nil, nil, err
		}
		items = append(items, item{nil, []string{id}, used, inUse[id]})
	}
	slices.SortStableFunc(items, func(a, b item) int {
		if a.leased != b.leased {
			if a.leased {
				return -1
			}
			return 1
		}
		return cmp.Or(b.used.Compare(a.used), cmp.Compare(len(b.layers), len(a.layers)))
	})
	return items, disk, nil
}

func modified(name string) (time.Time, error) {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// away moves a folder to where whoever finds it removes it.
func (s *Store) away(dir string, gone *[]string) error {
	to, err := os.MkdirTemp(s.path("tmp"), "")
	if err != nil {
		return err
	}
	*gone = append(*gone, to)
	return os.Rename(dir, filepath.Join(to, "gone"))
}

// dropRefs removes what leads to images that are not there.
func (s *Store) dropRefs() error {
	refs, err := os.ReadDir(s.path("refs"))
	if err != nil {
		return err
	}
	for _, e := range refs {
		name := s.path("refs", e.Name())
		r, err := readRef(name)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(s.path("images", digits(r.Image))); errors.Is(err, fs.ErrNotExist) {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

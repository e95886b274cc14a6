package image

import (
	"fmt"
	"log/slog"
	"time"
)

// Options say how a [Store] works. The zero Options are usable.
type Options struct {
	// Form is what layers are unpacked to. Default: that for an unprivileged mount.
	Form Form
	// Size bounds the disk that is kept, in bytes. What was not used for longest is removed
	// when a pull or an import ends; what is in use stays, whatever its size. Other forms
	// in the same folder do not count. Default 20 GiB.
	Size int64
	// Limits bound what an image may unpack to.
	Limits Limits
	// Mirrors are tried before a registry, in order. The key is the registry's host as
	// references have it ("docker.io"), the values are hosts, with a path to put before the
	// repository if need be ("mirror.example:5000/hub").
	Mirrors map[string][]string
	// Parallel is how many layers of a pull are under way at once. Default 4.
	Parallel int
	// Pause before the first further attempt after a failure of the network; each further
	// one doubles it. Default 500 ms. Five attempts are made, more if bytes arrived in
	// between.
	Pause time.Duration
	// Progress is called with every megabyte and every layer, by one goroutine at a time
	// for each store. It should not block. Default: none.
	Progress func(Progress)
	// Log gets what was left out and what stood in for what. Default: none.
	Log *slog.Logger
}

// Form says for which mount layers are unpacked.
//
// The zero Form is for an overlay that an ordinary user mounts in a user namespace that
// has one user, with the option userxattr. All files are the caller's. Files can be
// read and folders be searched and written by their owner whatever the archive says;
// programs are not set-uid. Folders are marked opaque by user.overlay.opaque. Whiteouts
// are character devices 0:0, and where these are refused files marked by
// user.overlay.whiteout, which Linux 6.7 and newer understand.
//
// A Form with a Range is for a user namespace that maps that many users, and needs the
// right to give files away. Owner n becomes Base+n; who is not below Range becomes
// 65534, "nobody", or the last of a smaller range. Modes are kept, set-uid
// included. Opaque folders are marked both by trusted.overlay.opaque and by
// user.overlay.opaque, because a mount made inside a user namespace cannot see the first.
type Form struct {
	Base  int // the host's id of the image's id 0
	Range int // how many ids there are
}

func (f Form) shifted() bool { return f.Range > 0 }

// name is the form's folder.
func (f Form) name() string {
	if f.shifted() {
		return fmt.Sprintf("%d+%d", f.Base, f.Range)
	}
	return "user"
}

// nobody is who owns what nobody of a range owns.
const nobody = 65534

// id gives the host's id for one of an archive; fits tells whether it is within the range.
func (f Form) id(n int) (id int, fits bool) {
	if n >= 0 && n < f.Range {
		return f.Base + n, true
	}
	return f.Base + min(nobody, f.Range-1), false
}

// Limits bound what an image may unpack to; a zero field takes its default. What
// exceeds one is refused with [TooLarge].
type Limits struct {
	Bytes   int64 // of all files of an image; default 64 GiB
	File    int64 // bytes of one file; default 16 GiB
	Entries int64 // of all layers of an image; default 4,000,000
	Path    int   // bytes of a path; default 4,095, which is also the most
	Layers  int   // default 400; overlay takes 500
	Ratio   int64 // uncompressed bytes for one compressed, past the first 64 MiB; default 200
}

// DefaultLimits are the limits that Limits documents as defaults.
func DefaultLimits() Limits {
	return Limits{Bytes: 64 << 30, File: 16 << 30, Entries: 4_000_000, Path: 4095, Layers: 400, Ratio: 200}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	return Limits{
		Bytes: positive(l.Bytes, d.Bytes), File: positive(l.File, d.File), Entries: positive(l.Entries, d.Entries),
		Path: min(positive(l.Path, d.Path), d.Path), Layers: min(positive(l.Layers, d.Layers), 499), Ratio: positive(l.Ratio, d.Ratio),
	}
}

func positive[T int | int64 | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}

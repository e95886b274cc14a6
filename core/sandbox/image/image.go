// Package image makes folders of container images, without a daemon and without a
// helper program. An [Image] is a stack of read-only folders, one for each layer,
// that the kernel's overlay file system puts over one another: this package unpacks
// layers into the form that an overlay understands, and mounts nothing.
//
// A [Store] keeps what it unpacked. Processes share it through locks of the kernel,
// which end with their holder. Its folder belongs to the caller alone (mode 0700),
// since layers hold set-uid programs and files of odd owners; who mounts them for
// somebody else hands over open folders. In it each [Form] has a folder of its own:
//
//	FORM/lock                  held for moments: while a lease is made, and while
//	                           what to remove is moved away
//	FORM/layers/DIFFID/        a layer, by the digest of its uncompressed archive
//	    tree/                  its files
//	    note.json              what does not show in the files
//	FORM/images/DIGEST/        an image: image.json; trim/ and floor/ where needed
//	FORM/refs/HASH.json        which image a reference led to when it was last pulled
//	FORM/leases/RANDOM         layers and image that a process needs, locked by it
//	FORM/locks/XX              held while a layer whose digest begins with XX is made
//	FORM/tmp/RANDOM/           what is being made or removed, locked by its maker
//
// Layers and images appear by rename, whole and flushed to the disk. What a killed
// process left behind in tmp and leases can be locked, therefore is nobody's, and is
// removed by the next [Open].
//
// # Layers alone and layers together
//
// A layer is unpacked without regard to those below it, so that all images that have
// it share it, and several are unpacked at once. Three things can only be known from
// the layers below: mode and owner of a folder that the layer has files in but no
// entry for, the content of a hard link to a file of a lower layer, and whether a
// whiteout has anything to hide (in a folder that no other layer has, overlay shows
// whiteouts instead of hiding by them). Where the answer makes a difference, the
// image gets one more folder, the trim, on top of the stack: it has these folders and
// files as they ought to be. Below whiteouts of the lowest layer goes an empty one, the
// floor.
//
// # What is kept, and what is not
//
// Kept are content, holes of sparse files, modes, owners as the [Form] has it, times of
// modification, symbolic links as they stand, hard links within a layer, named pipes,
// and extended attributes user.*. Left out and counted are devices, and all other
// attributes: capabilities of files do nothing on a nosuid mount, which every
// sandbox's is, and would be valid on the host; access control lists name users of the
// host; those of overlay itself would let an archive redirect look-ups.
//
// Archives are not trusted. What names a file outside the root, leads through a
// symbolic link, or exceeds the [Limits] is refused, and so is what is no archive; see
// [Error]. Nothing half-written stays.
package image

import (
	"slices"
	"time"
)

// Image is an unpacked image in use: it is not removed from its store until Close.
type Image struct {
	// Digest names the image, "sha256:…": that of its manifest, or for what was imported
	// without one, of its configuration.
	Digest string
	// Layers are absolute folders, the topmost first, as overlay's lowerdir+ wants them. Each
	// is shorter than 256 bytes, which is the most that fsconfig takes.
	Layers []string
	// Env is the image's environment, KEY=VALUE.
	Env []string
	// WorkingDir is where commands start, absolute; "/" if the image does not say. It
	// need not exist.
	WorkingDir string
	// User is whom commands run as, ids as inside.
	User User
	// Entrypoint and Cmd are what the image would run by itself.
	Entrypoint, Cmd []string
	// Size is the disk that the layers take, in bytes, shared ones included.
	Size int64

	close func() error
}

// Close ends the use of the image. Its folders may be removed from then on. It is
// idempotent and safe for concurrent use.
func (i *Image) Close() error { return i.close() }

// User is who a process is inside an image.
type User struct {
	Name   string // "" if the image has no name for it
	UID    int
	GID    int
	Groups []int  // further groups, ascending
	Home   string // "/" if unknown
}

// Kept is an image that a store has.
type Kept struct {
	Digest string
	Refs   []string // those that were pulled and led to it, with their registries
	Size   int64    // bytes of its layers, shared ones included
	Layers int
	Used   time.Time // when it was last opened
	InUse  bool      // by a process that is alive
}

// Progress is how far a pull or an import is.
type Progress struct {
	Ref    string // what was asked for
	Done   int64  // bytes of all layers, as they are transferred
	Total  int64
	Layers []LayerProgress // the lowest first
}

// LayerProgress is how far one layer is.
type LayerProgress struct {
	Digest string // of what is transferred
	Done   int64
	Total  int64
	Ready  bool // unpacked and kept
}

func (p Progress) clone() Progress {
	p.Layers = slices.Clone(p.Layers)
	return p
}

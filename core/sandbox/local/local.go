// Package local makes sandboxes on this machine without a daemon, a helper program
// or cgo: the running program starts itself again as the first process of fresh
// user, mount, pid, net, ipc and uts namespaces. That process mounts the sandbox's
// file system, gives up the rights that commands must not have on one thread, and
// from then on starts commands and handles files on request, over a socketpair.
// When it dies, or its host does, the kernel kills and unmounts everything with it.
//
// A program that imports this package can thus be started as valence-sandbox with
// process id 1, and then serves a sandbox before its main function, or any package
// that is initialised later, has run.
//
// Without an image the root is a skeleton: the host's tool chain read-only (/usr
// and what belongs to it, and the python3 on the PATH wherever it lives), written
// /etc/passwd and the like, and empty writable directories. Nothing else of the
// host's files, environment, processes or network is visible. The workspace is an
// overlay over its files, which are laid down once and shared by all sandboxes of
// the same content. What commands write lives in memory and counts towards both
// the disk and the memory limit.
package local

import (
	"log/slog"
	"time"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
)

// Options say how a driver works.
type Options struct {
	// Dir holds what sandboxes share while the driver lives, in a folder of the
	// driver's own; it is made if need be. Folders of drivers whose process died
	// are removed by the next driver with the same Dir. Default: valence/sandboxes
	// in the user's cache directory, or in the temporary one without it.
	Dir string
	// Defaults stand in for limits that a Spec leaves zero; where they are zero
	// too, sandbox.DefaultLimits do.
	Defaults sandbox.Limits
	// Cache bounds the bytes of workspaces kept for further sandboxes; those in
	// use are kept whatever their size. Default 1 GiB.
	Cache int64
	// Upper is where what commands write lies: UpperMemory, the default, or UpperDisk.
	Upper Upper
	// Bare allows sandboxes where the machine refuses namespaces: commands are then
	// processes of the host among others, which Landlock, seccomp and resource limits
	// refuse other files, sockets and signals, in a copy of the workspace. The level
	// is sandbox.LevelNone, and it is not isolation: see Missing of the driver's
	// Isolation. It needs Linux 6.12. Default: New fails on such a machine.
	Bare bool
	// Images gives the store of container images, in the form that [Form] says. It is
	// called whenever an image is needed that is not open yet. Default: there are none.
	Images func() (*image.Store, error)
	// Image is that of workspaces that name none. Default: they are on the host's tool chain.
	Image string
	// ImageFolders are folders in which images of this machine may lie that workspaces
	// name by "tar:", "oci:" or "dir:". Default: none; Image itself may lie anywhere.
	ImageFolders []string
	// Pull is the deadline of getting an image, which Create waits for beside the deadline
	// of its own. Default 30 min.
	Pull time.Duration
	// Log gets warnings and, at debug level, the life of each sandbox. Default: none.
	Log *slog.Logger

	refused refused // for tests: what counts as refused by the machine
}

// Upper is a place for what commands write.
type Upper string

const (
	// UpperMemory: a file system in memory, whose size is Limits.Disk. What is written
	// counts towards Limits.Memory as well.
	UpperMemory Upper = "memory"
	// UpperDisk: a folder below Options.Dir, for repositories that memory cannot hold.
	// Limits.Disk then bounds each file, and nothing the sum of them.
	UpperDisk Upper = "disk"
)

// refused is what a machine may refuse a driver.
type refused struct{ namespaces, procfs, groups, devices bool }

// defaultDir is where a workspace appears unless it says otherwise.
const defaultDir = "/workspace"

// Init marks a program's main function, or TestMain, as one that may run in a
// process that is started again for a sandbox. There is nothing left to do by
// then: it always gives false.
func Init() bool { return false }

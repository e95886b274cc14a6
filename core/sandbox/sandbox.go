// Package sandbox is the contract of every place where a policy's or an
// evaluator's commands run: ephemeral, without network, without version control,
// with limits on everything and a deadline that ends the whole process tree.
//
// The obligations below are tested for every driver by package sandboxtest.
package sandbox

import (
	"context"
	"strings"
	"time"

	"github.com/valence-rl/valence/sdk"
)

// Driver makes sandboxes.
type Driver interface {
	// Create makes a sandbox from spec and returns when it answers. It is safe
	// for concurrent use. An error is a diag.Error of KindSandbox (KindData if
	// the workspace itself is malformed) and leaves nothing behind.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Isolation is what the driver enforces on this machine, found out once at
	// start and never lowered afterwards.
	Isolation() Isolation
	// Close ends every sandbox that is still alive and removes the driver's
	// files. Sandboxes also end when the host dies, however it dies.
	Close() error
}

// Sandbox is one isolated workspace. Its methods are safe for concurrent use.
// After the sandbox has died every method gives a diag.Error of KindSandbox.
type Sandbox interface {
	// Exec runs a command and waits for it. A command that fails, is killed by
	// its limit or floods its output is a Result, not an error. On timeout every
	// process of the sandbox is killed; the sandbox lives on. A background
	// process does not hold Exec up.
	Exec(ctx context.Context, c Command) (Result, error)
	// Read gives a file's bytes. Paths are absolute or relative to the
	// workspace and are resolved inside the sandbox. A missing file is
	// fs.ErrNotExist; a file over limit bytes is ErrTooLarge; limit 0: 16 MiB.
	Read(ctx context.Context, path string, limit int64) ([]byte, error)
	// Write makes the files and their parents, or removes those whose Deleted is set.
	Write(ctx context.Context, changes ...sdk.Change) error
	// Diff gives what differs from the workspace as it was created, sorted by
	// path and relative to the workspace, read off the file system. Pyc caches
	// and the like are in it; filtering is the caller's. It stops with
	// ErrTooLarge when the contents exceed limit bytes; limit 0: 16 MiB.
	Diff(ctx context.Context, limit int64) ([]sdk.Change, error)
	// Close kills everything inside and frees it. It is idempotent.
	Close() error
}

// Spec says what to make.
type Spec struct {
	Name      string        // for logs and metrics; need not be unique
	Workspace sdk.Workspace // its files appear in Workspace.Dir, patched
	Limits    Limits
	Env       []string // KEY=VALUE added to every command's environment
}

// Limits bound a sandbox; a zero field takes the driver's default.
type Limits struct {
	Memory  int64         // bytes; default 512 MiB
	CPUs    float64       // cores; default 1
	Pids    int           // default 128
	Disk    int64         // bytes that may be written; default 256 MiB
	Output  int64         // bytes kept of one command's output; default 1 MiB
	Command time.Duration // default deadline of one command; default 60 s
	Create  time.Duration // deadline of Create; default 30 s
	Life    time.Duration // of the sandbox; default 1 h
}

// Command is one command line.
type Command struct {
	Shell   string   // run by `bash -c`, or by `sh -c` where there is no bash; or
	Args    []string // an argument vector, run as it is
	Dir     string   // default: the workspace
	Env     []string // added
	Stdin   []byte
	Timeout time.Duration // 0: Limits.Command
}

// Result is how a command ended.
type Result struct {
	Output    []byte // stdout and stderr, interleaved as written
	ExitCode  int    // 128+n after signal n
	TimedOut  bool
	Truncated bool  // Output is the first Limits.Output bytes only
	Bytes     int64 // written in all
	Took      time.Duration
}

// Isolation reports what separates a sandbox from the host.
type Isolation struct {
	Driver  string   `json:"driver"`
	Level   string   `json:"level"`             // how much; one of the Level constants, or a driver's own word
	Limits  []string `json:"limits"`            // what is enforced of AllLimits
	Missing []string `json:"missing,omitempty"` // what is not, as "name: reason"; the names are limits, or attacks of package sandboxtest
}

// Levels of isolation, from most to least.
const (
	// LevelNamespaces: namespaces of the kernel, and ids that the host does not use.
	LevelNamespaces = "namespaces"
	// LevelUnprivileged: namespaces of the kernel, with the host's own id outside.
	LevelUnprivileged = "namespaces-unprivileged"
	// LevelNone: commands run among the host's processes, and are only refused
	// what the kernel can refuse a process. It is not isolation.
	LevelNone = "none"
)

// AllLimits are the names that a driver puts either into Isolation.Limits or, with
// the reason, into Isolation.Missing.
func AllLimits() []string { return []string{"memory", "cpu", "pids", "disk", "output"} }

// Lacks gives the reason for which name is missing, if it is.
func (i Isolation) Lacks(name string) (reason string, missing bool) {
	for _, m := range i.Missing {
		if n, why, ok := strings.Cut(m, ": "); ok && n == name {
			return why, true
		}
	}
	return "", false
}

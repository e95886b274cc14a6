package run

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
)

// glimpses is how often, and glimpse how long apart, lock looks again at a directory
// that is taken: a command that looks whether a process works on a run has it for an
// instant.
const (
	glimpses = 5
	glimpse  = 20 * time.Millisecond
)

// lock takes a run directory for this process; another that has it is an error.
// The kernel lets go of it when the process ends, however it ends.
func lock(dir journal.Dir) (unlock func(), err error) {
	if err := os.MkdirAll(string(dir), 0o755); err != nil {
		return nil, diag.Wrap(diag.KindData, "open run", string(dir), err)
	}
	f, err := os.OpenFile(filepath.Join(string(dir), ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "open run", string(dir), err)
	}
	for n := 1; syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; n++ {
		if n == glimpses {
			f.Close()
			return nil, diag.Errorf(diag.KindConfig, "open run", string(dir), "another process is working on it")
		}
		time.Sleep(glimpse)
	}
	return func() { f.Close() }, nil
}

// fileDigest is the sha256 of a file in hexadecimal.
func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

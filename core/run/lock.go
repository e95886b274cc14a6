package run

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
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
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, diag.Errorf(diag.KindConfig, "open run", string(dir), "another process is working on it")
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

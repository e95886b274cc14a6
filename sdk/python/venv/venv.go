// Package venv makes a Python environment in which skills of the Python SDK run,
// for tests and benchmarks.
package venv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoPython tells that no environment can be made here.
var ErrNoPython = errors.New("no Python 3.9 or newer with its module venv: install it, so that python3 is in PATH")

// able fails under a Python that is too old or lacks a module, and else names itself.
const able = `import sys, venv, ensurepip; assert sys.version_info >= (3, 9); print(sys.version, sys.base_prefix)`

// Bin gives the folder of an environment's programs, to be put first in PATH. In it
// are python3, the SDK of folder sdk as it is on disk at any time, and what its tests
// need. The first call makes the environment in the user's cache folder, which takes
// half a minute and a package index; calls of several processes do no harm. The
// error is ErrNoPython, or says what the tools said.
func Bin(ctx context.Context, sdk string) (string, error) {
	sdk, err := filepath.Abs(sdk)
	if err != nil {
		return "", err
	}
	project, err := os.ReadFile(filepath.Join(sdk, "pyproject.toml"))
	if err != nil {
		return "", err
	}
	python, err := exec.CommandContext(ctx, "python3", "-c", able).Output()
	if err != nil {
		return "", errors.Join(ErrNoPython, ctx.Err())
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "valence", "python")
	key := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", sdk, project, python))
	made := filepath.Join(cache, fmt.Sprintf("%x", key[:10]))
	if _, err := os.Stat(made); err == nil {
		return filepath.Join(made, "bin"), nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for _, step := range [][]string{
		{"python3", "-m", "venv", tmp},
		{filepath.Join(tmp, "bin", "python3"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", sdk + "[test]"},
	} {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("make a Python environment: %s: %w\n%s", step[len(step)-1], err, bytes.TrimSpace(out))
		}
	}
	// Programs other than python3 have the temporary name inside; they are run by python3 -m.
	if err := os.Rename(tmp, made); err != nil {
		if _, there := os.Stat(made); there != nil {
			return "", err
		}
	}
	return filepath.Join(made, "bin"), nil
}

package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/kube"
	"github.com/valence-rl/valence/core/sandbox/local"
)

// SandboxDir is where local sandboxes keep what they share: a folder of this user
// under the temporary directory, which every run of the user shares, so that the
// next one removes what a killed one left.
func SandboxDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("valence-%d", os.Getuid()))
}

// Limits are those of every sandbox of a run.
func Limits(c *config.Config) sandbox.Limits {
	s := c.Sandbox
	return sandbox.Limits{Memory: int64(s.Memory), CPUs: s.CPUs, Pids: s.Pids, Disk: int64(s.Disk), Output: int64(s.Output), Command: s.CommandTimeout}
}

// Sandboxes opens the driver that the configuration names. With a cluster that takes
// seconds. The image of tasks that name none is pulled first, for which progress, if it
// is not nil, is called: without it no task could be played. What Sandboxes gives is
// checked as far as the configuration tells what is needed: Python where its sources are
// made of it. An error is a diag.Diagnostic of KindSandbox where somebody can mend it.
func Sandboxes(ctx context.Context, c *config.Config, log *slog.Logger, progress func(image.Progress)) (sandbox.Driver, error) {
	// The pocket world is made of Python packages.
	python := slices.ContainsFunc(c.Sources, func(src config.Source) bool { return src.Kind == "pocket" })
	if c.Sandbox.Driver == "kube" {
		return cluster(ctx, c, log, python)
	}
	b := c.Sandbox
	d, err := local.New(local.Options{
		Dir: SandboxDir(), Defaults: Limits(c), Upper: local.Upper(b.Upper), Bare: b.Bare, Log: log,
		Images: Images(b, log, progress), Image: b.Image, ImageFolders: b.Images.Folders, Pull: b.Images.Timeout,
	})
	if err != nil {
		return nil, err
	}
	switch {
	case b.Image != "":
		if err = d.Prepare(ctx, b.Image); err == nil && python {
			err = hasPython(ctx, d, b.Image)
		}
	case python:
		_, err = local.Python()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func cluster(ctx context.Context, c *config.Config, log *slog.Logger, python bool) (sandbox.Driver, error) {
	k, limits := c.Sandbox.Kube, Limits(c)
	limits.Create = k.CreateTimeout
	d, err := kube.New(ctx, kube.Options{
		Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace, Image: c.Sandbox.Image, Tools: k.Tools,
		RuntimeClass: k.RuntimeClass, NodeSelector: k.NodeSelector, PullSecrets: k.PullSecrets,
		Defaults: limits, CPUShare: k.CPUShare, Creates: k.Creates, Warm: k.Warm, Reach: k.Reach, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if python {
		if err := hasPython(ctx, d, c.Sandbox.Image); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// hasPython tries the interpreter of an image. Without it every test would fail,
// and look like the policy's failure.
func hasPython(ctx context.Context, d sandbox.Driver, image string) error {
	b, err := d.Create(ctx, sandbox.Spec{Name: "python"})
	if err != nil {
		return err
	}
	defer b.Close()
	r, err := b.Exec(ctx, sandbox.Command{Args: []string{"python3", "-c", "import sys, unittest; sys.exit(sys.version_info < (3, 8))"}})
	if err != nil {
		return err
	}
	if r.ExitCode != 0 {
		return &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S016", Summary: "image " + image + " has no Python 3.8 or newer",
			Hint: "name an image with python3 on its PATH, e.g. python:3.12-slim", Detail: []string{fmt.Sprintf("code %d: %s", r.ExitCode, strings.TrimSpace(string(r.Output)))}}
	}
	return nil
}

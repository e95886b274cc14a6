package examine

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// largest is how many bytes of a file are read for what is hidden; longer ones are
// told as a failure, not passed over.
const largest = 64 << 20

// visible lists what an agent finds in the sandbox of a workspace: the files of the
// workspace and, unless it has an image of its own, of the whole root but for the
// host's tool chain, and the environment.
func visible(d sandbox.Driver) func(context.Context, *sdk.Workspace) ([]sdk.File, error) {
	return func(ctx context.Context, w *sdk.Workspace) ([]sdk.File, error) {
		box, err := d.Create(ctx, sandbox.Spec{Name: "look", Workspace: *w, Limits: sandbox.Limits{Output: 64 << 20}})
		if err != nil {
			return nil, err
		}
		defer box.Close()
		from := ". / "
		if w.Image != "" {
			from = ". "
		}
		list, err := output(ctx, box, "find "+from+"-xdev -path /proc -prune -o -path /sys -prune -o -path /dev -prune -o -type f -print0")
		if err != nil {
			return nil, err
		}
		env, err := output(ctx, box, "env")
		if err != nil {
			return nil, err
		}
		files := []sdk.File{{Path: "(environment)", Data: env}}
		for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
			if name == "" {
				continue
			}
			data, err := box.Read(ctx, name, largest)
			if errors.Is(err, fs.ErrNotExist) {
				continue // of the moment, such as a lock
			}
			if err != nil {
				return nil, diag.Wrap(diag.KindSandbox, "look into the sandbox", name, err)
			}
			files = append(files, sdk.File{Path: strings.TrimPrefix(name, "./"), Data: data})
		}
		return files, nil
	}
}

func output(ctx context.Context, box sandbox.Sandbox, shell string) ([]byte, error) {
	r, err := box.Exec(ctx, sandbox.Command{Shell: shell})
	if err != nil {
		return nil, err
	}
	if r.TimedOut || r.Truncated || r.ExitCode != 0 {
		return nil, diag.Errorf(diag.KindSandbox, "look into the sandbox", shell, "exit status %d, timed out %t: %.200s", r.ExitCode, r.TimedOut, r.Output)
	}
	return r.Output, nil
}

// Package mine makes records of a repository's history: of commits that change sources
// and tests, where the tests fail before the change of the sources and pass after it.
//
// The history is read by the git program and never changed. Nothing of it is checked
// out: trees are read from git's objects into memory, and run in sandboxes alone.
package mine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/data/source"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// repository is a git repository on this machine.
type repository struct{ dir string }

const opGit = "read history"

func openRepository(ctx context.Context, dir string) (*repository, error) {
	r := &repository{dir}
	if _, err := exec.LookPath("git"); err != nil {
		return nil, &diag.Diagnostic{Kind: diag.KindData, Code: "D022", Summary: "git is not on the PATH", Hint: "install git; the history is read by it"}
	}
	if _, err := r.git(ctx, "rev-parse", "--git-dir"); err != nil {
		return nil, diag.Errorf(diag.KindData, opGit, dir, "it is no git repository: %w", err)
	}
	return r, nil
}

// git runs a command that only reads. Nothing of the user's settings, and no program
// that a repository's own settings name, has a part in it.
func (r *repository) git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := r.command(ctx, args...)
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, diag.Wrap(diag.KindInterrupted, opGit, r.dir, ctx.Err())
		}
		text := strings.TrimSpace(says.String())
		if text == "" {
			text = err.Error()
		}
		return nil, diag.Errorf(diag.KindData, opGit, r.dir, "git %s: %s", args[0], text)
	}
	return out.Bytes(), nil
}

func (r *repository) command(ctx context.Context, args ...string) *exec.Cmd {
	base := []string{"-C", r.dir, "--no-optional-locks", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "protocol.allow=never", "-c", "safe.directory=*"}
	cmd := exec.CommandContext(ctx, "git", append(base, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	return cmd
}

// commit is one of the history.
type commit struct {
	id, parent string
	message    string
}

// history lists the commits with one parent, the newest first, that change something
// below paths where there are any.
func (r *repository) history(ctx context.Context, from string, most int, paths []string) ([]commit, error) {
	args := []string{"log", "--no-merges", "--format=%H%x00%P%x00%B%x00%x01"}
	if most > 0 {
		args = append(args, "-n", strconv.Itoa(most))
	}
	out, err := r.git(ctx, append(append(args, "--end-of-options", from, "--"), paths...)...)
	if err != nil {
		return nil, err
	}
	var list []commit
	for part := range bytes.SplitSeq(out, []byte("\x00\x01")) {
		f := strings.SplitN(strings.TrimLeft(string(part), "\n"), "\x00", 3)
		if len(f) == 3 && f[1] != "" && !strings.Contains(f[1], " ") {
			list = append(list, commit{f[0], f[1], strings.TrimSpace(f[2])})
		}
	}
	return list, nil
}

// delta is a path that a commit changes.
type delta struct {
	path   string
	status byte // A, M, D, T
	mode   string
}

func (r *repository) changes(ctx context.Context, c commit) ([]delta, error) {
	out, err := r.git(ctx, "diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", c.parent, c.id)
	if err != nil {
		return nil, err
	}
	var list []delta
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		head := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(head) != 5 {
			return nil, diag.Errorf(diag.KindData, opGit, r.dir, "commit %s: a change that git does not describe", c.id)
		}
		mode := head[1]
		if head[4] == "D" {
			mode = head[0]
		}
		list = append(list, delta{fields[i+1], head[4][0], mode})
	}
	return list, nil
}

// tree reads the files of a commit. Links, submodules, and what no checkout would make
// are left out by name.
func (r *repository) tree(ctx context.Context, id string) (*source.Tree, error) {
	out, err := r.git(ctx, "ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", id)
	if err != nil {
		return nil, err
	}
	t := &source.Tree{}
	files, objects, err := listed(string(out), t)
	if err != nil {
		return nil, diag.Errorf(diag.KindData, opGit, r.dir, "commit %s: %w", id, err)
	}
	if err := r.read(ctx, objects, files); err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b sdk.File) int { return strings.Compare(a.Path, b.Path) })
	t.Files = files
	return t, nil
}

// listed reads what git says of a tree: the files, still without contents, and their
// objects. A tree is somebody else's, and nothing but git's own care keeps its names in
// order.
func listed(out string, t *source.Tree) (files []sdk.File, objects []string, err error) {
	var size int64
	seen := map[string]bool{}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		lines = append(lines, line)
		if _, path, ok := strings.Cut(line, "\t"); ok {
			for i := range len(path) {
				if path[i] == '/' {
					seen[path[:i]] = true // a folder
				}
			}
		}
	}
	for _, line := range lines {
		meta, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			continue
		}
		n, _ := strconv.ParseInt(f[3], 10, 64)
		why := ""
		switch {
		case f[0] == "120000":
			why = "a symbolic link"
		case f[0] == "160000":
			why = "a submodule"
		case path == "." || !fs.ValidPath(path):
			why = "not a clean path within the tree"
		case source.Hidden(path):
			continue
		case seen[path]:
			why = "given twice, or a file and a folder"
		case n > source.MaxFile:
			why = "larger than 4 MiB"
		}
		if why != "" {
			t.LeftOut = append(t.LeftOut, path+": "+why)
			continue
		}
		seen[path] = true
		if size += n; size > source.MaxTree {
			return nil, nil, fmt.Errorf("more than %d MiB of files", source.MaxTree>>20)
		}
		if len(files) >= source.MaxFiles {
			return nil, nil, fmt.Errorf("more than %d files", source.MaxFiles)
		}
		files = append(files, sdk.File{Path: path, Exec: f[0] == "100755"})
		objects = append(objects, f[2])
	}
	return files, objects, nil
}

// read fills in the contents of files, whose objects are given.
func (r *repository) read(ctx context.Context, objects []string, files []sdk.File) error {
	cmd := r.command(ctx, "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(strings.Join(objects, "\n") + "\n")
	var says bytes.Buffer
	cmd.Stderr = &says
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return diag.Wrap(diag.KindData, opGit, r.dir, err)
	}
	err = readObjects(bufio.NewReaderSize(pipe, 1<<16), files)
	io.Copy(io.Discard, pipe)
	if e := cmd.Wait(); err == nil && e != nil {
		err = fmt.Errorf("git cat-file: %w: %s", e, strings.TrimSpace(says.String()))
	}
	return diag.Wrap(diag.KindData, opGit, r.dir, err)
}

func readObjects(b *bufio.Reader, files []sdk.File) error {
	for i := range files {
		head, err := b.ReadString('\n')
		if err != nil {
			return err
		}
		f := strings.Fields(head)
		if len(f) != 3 || f[1] != "blob" {
			return fmt.Errorf("%s: git has no such object: %s", files[i].Path, strings.TrimSpace(head))
		}
		n, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || n < 0 || n > source.MaxFile {
			return fmt.Errorf("%s: an object of %s bytes", files[i].Path, f[2])
		}
		files[i].Data = make([]byte, n)
		if _, err := io.ReadFull(b, files[i].Data); err != nil {
			return err
		}
		if c, err := b.ReadByte(); err != nil || c != '\n' {
			return errors.New("git's answer has no end")
		}
	}
	return nil
}

// name is what the repository is called: its folder.
func (r *repository) name() string {
	abs, err := filepath.Abs(r.dir)
	if err != nil {
		abs = r.dir
	}
	return strings.TrimSuffix(filepath.Base(abs), ".git")
}

// home is where the repository says that it is developed; "" if it does not.
func (r *repository) home(ctx context.Context) string {
	out, err := r.git(ctx, "config", "--get", "remote.origin.url")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

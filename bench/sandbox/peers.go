package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The limits of the peers that have some: those that the local driver has by default.
const (
	memoryLimit = 512 << 20
	pidsLimit   = 128
)

// find looks for a peer's command, which this user has to be allowed to run.
func find(name, debian string) error {
	if os.Geteuid() != 0 {
		return errors.New("it is measured as root only")
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s is not installed (Debian: apt-get install %s)", name, debian)
	}
	return nil
}

// tool is a peer that is a command line, called for each thing to do.
type tool struct {
	name  string
	flags []string
}

func (t tool) call(args ...string) ([]byte, error) {
	out, err := exec.Command(t.name, append(t.flags[:len(t.flags):len(t.flags)], args...)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", t.name, args[0], err, bytes.TrimSpace(out))
	}
	return out, nil
}

// engine is podman or Docker.
type engine struct {
	tool
	made   atomic.Int64
	create []string     // of the run command: workspace and root
	after  func() error // nil: nothing
}

func (e *engine) make() (box, error) {
	id := fmt.Sprintf("bench-%d-%d", os.Getpid(), e.made.Add(1))
	args := append([]string{"run", "-d", "--name", id, "--network=none", "--log-driver=none", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096",
		fmt.Sprint("--memory=", memoryLimit), fmt.Sprint("--pids-limit=", pidsLimit), "--cpus=1", "--tmpfs=/tmp", "--volume=/usr:/usr:ro"}, e.create...)
	if _, err := e.call(append(args, "/bin/sleep", "infinity")...); err != nil {
		return nil, err
	}
	return &contained{e, id}, nil
}

func (e *engine) close() error {
	if e.after != nil {
		return e.after()
	}
	return nil
}

type contained struct {
	engine *engine
	id     string
}

func (c *contained) run(line string) ([]byte, error) {
	return c.engine.call("exec", c.id, "/bin/bash", "-c", line)
}

func (c *contained) roots() ([]int, error) {
	out, err := c.engine.call("inspect", "--format", "{{.State.Pid}}", c.id)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// What serves the sandbox is its parent.
	parent, err := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[1])
	return []int{parent}, err
}

func (c *contained) end() error {
	args := []string{"rm", "-f", c.id}
	if c.engine.name == "podman" {
		args = []string{"rm", "-f", "-t", "0", c.id}
	}
	_, err := c.engine.call(args...)
	return err
}

func openPodman(p *place) (subject, error) {
	if err := find("podman", "podman"); err != nil {
		return nil, err
	}
	dir, err := p.sub("podman")
	if err != nil {
		return nil, err
	}
	e := &engine{tool: tool{"podman", []string{"--cgroup-manager=cgroupfs", "--events-backend=none", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run")}}}
	if _, err := exec.LookPath("runc"); err == nil {
		e.flags = append(e.flags, "--runtime=runc") // the same as Docker's
	}
	e.create = []string{"--volume=" + p.files + ":/workspace:O", "--rootfs", p.root + ":O"}
	e.after = func() error {
		unix.Unmount(filepath.Join(dir, "root", "overlay"), unix.MNT_DETACH) // which podman leaves, with some storage
		return nil
	}
	return &peer{crew{maker: e}}, nil
}

func openDocker(p *place) (subject, error) {
	if err := find("docker", "docker.io"); err != nil {
		return nil, err
	}
	e := &engine{tool: tool{name: "docker"}}
	if _, err := e.call("version", "--format", "{{.Server.Version}}"); err != nil {
		return nil, errors.New("no daemon answers")
	}
	// An image with the workspace in it, as there is no other way to get an overlay.
	image := fmt.Sprintf("valence-bench:%d", os.Getpid())
	load := exec.Command("sh", "-c", `tar -C "$1" -c . | docker import - "$2" 2>&1`, "sh", p.root, image)
	if out, err := load.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("docker import: %w: %s", err, out)
	}
	e.create = []string{image}
	e.after = func() error {
		_, err := e.call("rmi", image)
		return err
	}
	return &peer{crew{maker: e}}, nil
}

// oci is runc.
type oci struct {
	tool
	place *place
	dir   string
	made  atomic.Int64
}

func openRunc(p *place) (subject, error) {
	if err := find("runc", "runc"); err != nil {
		return nil, err
	}
	dir, err := p.sub("runc")
	if err != nil {
		return nil, err
	}
	return &peer{crew{maker: &oci{tool: tool{"runc", []string{"--root", filepath.Join(dir, "state")}}, place: p, dir: dir}}}, nil
}

func (o *oci) make() (box, error) {
	id := fmt.Sprintf("bench-%d-%d", os.Getpid(), o.made.Add(1))
	b := &bundle{o, id, filepath.Join(o.dir, id)}
	if err := o.place.lay(filepath.Join(b.dir, "workspace")); err != nil {
		return nil, err
	}
	text, err := json.Marshal(o.config(b))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o644); err != nil {
		return nil, err
	}
	// What it says goes to a file: the sandbox inherits it and would keep a pipe open.
	said, err := os.Create(filepath.Join(b.dir, "said"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd := exec.Command(o.name, append(o.flags[:len(o.flags):len(o.flags)], "run", "--detach", "--no-new-keyring", "--bundle", b.dir, id)...)
	cmd.Stderr = said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return nil, errors.Join(fmt.Errorf("runc run: %w: %s", err, text), os.RemoveAll(b.dir))
	}
	return b, nil
}

func (o *oci) config(b *bundle) map[string]any {
	bind := func(from, to, mode string) map[string]any {
		return map[string]any{"destination": to, "type": "bind", "source": from, "options": []string{"bind", mode, "nosuid", "nodev"}}
	}
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID", "CAP_KILL"}
	var namespaces []map[string]any
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, map[string]any{"type": n})
	}
	return map[string]any{
		"ociVersion": "1.0.2", "hostname": "sandbox",
		"root": map[string]any{"path": o.place.root, "readonly": true},
		"process": map[string]any{
			"args": []string{"/bin/sleep", "infinity"}, "cwd": "/workspace", "env": []string{"PATH=/usr/bin:/bin"}, "noNewPrivileges": true,
			"user": map[string]any{"uid": 0, "gid": 0}, "capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
		},
		"mounts": []map[string]any{
			bind("/usr", "/usr", "ro"), bind(filepath.Join(b.dir, "workspace"), "/workspace", "rw"),
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "nodev"}},
		},
		"linux": map[string]any{
			"namespaces": namespaces, "cgroupsPath": "/valence-bench/" + b.id,
			"resources": map[string]any{
				"memory": map[string]any{"limit": memoryLimit}, "pids": map[string]any{"limit": pidsLimit},
				"cpu": map[string]any{"quota": 100_000, "period": 100_000},
			},
		},
	}
}

func (o *oci) close() error {
	folders, err := filepath.Glob("/sys/fs/cgroup/*/valence-bench")
	for _, f := range append(folders, "/sys/fs/cgroup/valence-bench") {
		os.Remove(f) // of its groups, none of which is left
	}
	return err
}

type bundle struct {
	oci *oci
	id  string
	dir string
}

func (b *bundle) run(line string) ([]byte, error) {
	return b.oci.call("exec", b.id, "/bin/bash", "-c", line)
}

func (b *bundle) roots() ([]int, error) {
	out, err := b.oci.call("state", b.id)
	if err != nil {
		return nil, err
	}
	var state struct{ Pid int }
	err = json.Unmarshal(out, &state)
	return []int{state.Pid}, err
}

func (b *bundle) end() error {
	_, err := b.oci.call("delete", "--force", b.id)
	return errors.Join(err, os.RemoveAll(b.dir))
}

// wrap is bwrap.
type wrap struct {
	place *place
	dir   string
	made  atomic.Int64
}

func openBwrap(p *place) (subject, error) {
	if err := find("bwrap", "bubblewrap"); err != nil {
		return nil, err
	}
	dir, err := p.sub("bwrap")
	if err != nil {
		return nil, err
	}
	return &peer{crew{maker: &wrap{place: p, dir: dir}}}, nil
}

func (w *wrap) make() (box, error) {
	dir := filepath.Join(w.dir, strconv.FormatInt(w.made.Add(1), 10))
	if err := w.place.lay(dir); err != nil {
		return nil, err
	}
	s := &shell{dir: dir, cmd: exec.Command("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", dir, "/workspace", "--chdir", "/workspace", "/bin/bash")}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

func (w *wrap) close() error { return nil }

// shell is a bash in a sandbox that commands are written to.
type shell struct {
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const mark = "--end--"

func (s *shell) run(line string) ([]byte, error) {
	if _, err := fmt.Fprintf(s.in, "bash -c '%s' </dev/null 2>&1; echo; echo %s\n", line, mark); err != nil {
		return nil, err
	}
	var out []byte
	for {
		l, err := s.out.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("bwrap: %w", err)
		}
		if strings.TrimSpace(l) == mark {
			return out, nil
		}
		out = append(out, l...)
	}
}

func (s *shell) roots() ([]int, error) { return []int{s.cmd.Process.Pid}, nil }

func (s *shell) end() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	s.cmd.Wait()
	return os.RemoveAll(s.dir)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// level is a way to run the local driver, in a process of its own: which rights it
// has decides what it makes.
type level struct {
	name   string
	dir    string // of its files, in the place
	limits bool
	user   int // to run as; 0: whoever runs this
	refuse bool
	onDisk bool
	want   string // the driver's own word; "": any
}

// nobody is the user without rights.
const nobody = 65534

// levels are those that this user can bring a driver to.
func levels() []level {
	user := nobody
	if os.Geteuid() != 0 {
		user = os.Geteuid()
	}
	out := []level{
		{name: "as root", dir: "root", limits: true, want: sandbox.LevelNamespaces},
		{name: "as an ordinary user", dir: "user", user: user, want: sandbox.LevelUnprivileged},
		{name: "no namespaces", dir: "bare", user: user, refuse: true, want: sandbox.LevelNone},
	}
	if os.Geteuid() != 0 {
		return out[1:]
	}
	return out
}

// workerWord makes this program a host of local sandboxes that takes orders on
// standard input. What else it needs to know follows as JSON.
const workerWord = "worker"

type task struct {
	Dir    string
	Refuse bool // let the kernel refuse namespaces from now on
	OnDisk bool
	Want   string
}

// worker is the other end of one.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

func startWorker(p *place, l level) (subject, error) { return newWorker(p, l) }

func newWorker(p *place, l level) (*worker, error) {
	dir, err := p.sub(l.dir)
	if err != nil {
		return nil, err
	}
	t, err := json.Marshal(task{Dir: dir, Refuse: l.refuse, OnDisk: l.onDisk, Want: l.want})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.program, workerWord, string(t))
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if l.user != 0 && l.user != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(l.user), Gid: uint32(l.user)}
	}
	if l.refuse {
		id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: l.user, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: id, GidMappings: id, Credential: &syscall.Credential{NoSetGroups: true}}
	}
	w := &worker{cmd: cmd}
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.enc, w.dec = json.NewEncoder(w.in), json.NewDecoder(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := w.answer(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *worker) do(o order) (report, error) {
	if err := w.enc.Encode(o); err != nil {
		return report{}, err
	}
	return w.answer()
}

func (w *worker) answer() (report, error) {
	var r report
	if err := w.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("its host ended: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

func (w *worker) memory([]int) (int, error) { return trees([]int{w.cmd.Process.Pid}) }

func (w *worker) close() error {
	w.in.Close()
	return w.cmd.Wait()
}

// work is a worker's life.
func work(said string, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(said), &t); err != nil {
		return err
	}
	if t.Refuse {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			return err
		}
	}
	o := local.Options{Dir: t.Dir, Bare: t.Refuse}
	if t.OnDisk {
		o.Upper = local.UpperDisk
	}
	enc, dec := json.NewEncoder(out), json.NewDecoder(in)
	d, err := local.New(o)
	if err == nil && t.Want != "" && d.Isolation().Level != t.Want {
		err = errors.Join(fmt.Errorf("the level is %s, not %s", d.Isolation().Level, t.Want), d.Close())
	}
	if err != nil {
		return enc.Encode(report{Error: err.Error()})
	}
	defer d.Close()
	if err := enc.Encode(report{}); err != nil {
		return err
	}
	c := crew{maker: localMaker{d}}
	for {
		var o order
		if err := dec.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r, err := c.do(o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
}

// localMaker makes local sandboxes.
type localMaker struct{ driver *local.Driver }

var workspace = func() sdk.Workspace {
	var w sdk.Workspace
	for name, text := range files {
		w.Files = append(w.Files, sdk.File{Path: name, Data: []byte(text)})
	}
	return w
}()

func (m localMaker) make() (box, error) {
	b, err := m.driver.Create(context.Background(), sandbox.Spec{Name: "bench", Workspace: workspace})
	return localBox{b}, err
}

func (m localMaker) close() error { return m.driver.Close() }

type localBox struct{ sandbox.Sandbox }

func (b localBox) run(line string) ([]byte, error) {
	r, err := b.Exec(context.Background(), sandbox.Command{Shell: line})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", r.ExitCode, r.Output)
	}
	return r.Output, err
}

func (b localBox) roots() ([]int, error) { return nil, nil }

// end asks once more after closing it: the error comes when all is freed.
func (b localBox) end() error {
	if err := b.Close(); err != nil {
		return err
	}
	if _, err := b.run("true"); err == nil {
		return errors.New("a sandbox answers that was closed")
	}
	return nil
}

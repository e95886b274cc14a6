package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk/process"
)

// passed are the variables of the host's environment that a plugin gets.
var passed = [...]string{"PATH", "HOME", "LANG"}

// lifeline is the number of the descriptor in the child: the first of its ExtraFiles.
const lifeline = 3

// program is the plugin's program, in the form that go-plugin runs.
type program struct {
	config Config
	dir    string   // its own; removed by whoever made it
	env    []string // of go-plugin

	cmd    *exec.Cmd
	output output
	first  *firstLine
	out    pipe
	err    pipe
	life   *os.File      // held open: its end is the program's
	gone   chan struct{} // closed when it has ended and all that it printed was read

	mu      sync.Mutex
	started bool
	running bool  // there is something to kill
	reason  error // of the host's kill; nil if it ended by itself
}

func newProgram(c Config) *program {
	p := &program{config: c, gone: make(chan struct{})}
	p.output.calls = make(map[*transport.Printed]struct{})
	p.first = newFirstLine(&p.output)
	return p
}

// Start starts the program.
func (p *program) Start(context.Context) (err error) {
	defer func() {
		if p.cmd == nil || p.cmd.Process == nil {
			p.close()
			close(p.gone)
			p.first.end()
		}
	}()
	life, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer life.Close()
	p.life = held
	stdout, err := p.open(&p.out, p.first)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := p.open(&p.err, &p.output)
	if err != nil {
		return err
	}
	defer stderr.Close()

	p.cmd = exec.Command(p.config.Command[0], p.config.Command[1:]...)
	p.cmd.Dir = p.dir
	p.cmd.Env = append(p.env, "TMPDIR="+p.dir, process.Lifeline+"="+strconv.Itoa(lifeline))
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			p.cmd.Env = append(p.cmd.Env, name+"="+v)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	p.cmd.ExtraFiles = []*os.File{life}
	separate(p.cmd)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != nil {
		return p.reason
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.started, p.running = true, true
	if err = limit(p.cmd.Process.Pid, p.config.Memory); err != nil {
		killAll(p.cmd.Process)
	}
	go p.attend()
	return err
}

// attend reads what the program prints until it has ended.
func (p *program) attend() {
	var pumps sync.WaitGroup
	pumps.Go(p.out.pump)
	pumps.Go(p.err.pump)
	p.reap()
	p.drain()
	p.close()
	pumps.Wait()
	close(p.gone)
	p.first.end() // go-plugin hears of the end after everybody else can know
}

// open makes the pipe to from which p is read, and gives the program's end.
func (p *program) open(from *pipe, to io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from.file, from.to = r, to
	return w, nil
}

// close closes the host's ends of all pipes.
func (p *program) close() {
	for _, f := range []*os.File{p.life, p.out.file, p.err.file} {
		f.Close() // of nil: an error that says so
	}
}

// drain makes sure that what the program has printed by now was read.
func (p *program) drain() {
	p.out.drain()
	p.err.drain()
}

// kill ends the program and what it has started, or keeps it from being started. The
// first reason counts, unless the program has ended by itself. It does not wait.
func (p *program) kill(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started && !p.running {
		return
	}
	if p.reason == nil {
		p.reason = reason
	}
	if p.running {
		killAll(p.cmd.Process)
	}
}

// killed gives the reason of the host's kill; nil if the program ended by itself.
func (p *program) killed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// ended tells whether the program has ended.
func (p *program) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// The rest is go-plugin's.

var errKilled = errors.New("the process was stopped")

func (p *program) Wait(context.Context) error {
	<-p.gone
	return nil
}

func (p *program) Kill(context.Context) error {
	p.kill(errKilled)
	return nil
}

func (p *program) Stdout() io.ReadCloser { return io.NopCloser(p.first) }

func (p *program) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (p *program) Name() string { return filepath.Base(p.config.Command[0]) }

func (p *program) ID() string { return fmt.Sprintf("%p", p) }

func (p *program) Diagnose(context.Context) string { return "" }

func (p *program) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (p *program) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

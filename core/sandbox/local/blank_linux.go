package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local/internal/first"
)

// blank is a first process that has not been told yet which sandbox it is: in its
// namespaces and its control group, and without any file of a sandbox.
type blank struct {
	conn    *os.File
	process *child
	group   *group // nil: none can be made
	diary   int64  // length of the driver's diary when it began
}

// blanks keeps a few ahead. Starting a process and moving it to its control groups
// is most of the time that a sandbox takes to make, and needs nothing of its spec.
type blanks struct {
	driver *Driver

	mu      sync.Mutex
	ready   []*blank
	filling bool
	closed  bool // none is kept
	work    sync.WaitGroup
}

// spareBlanks is how many are kept ahead: one for each sandbox that the machine
// could make at the same time.
func spareBlanks() int { return max(2, min(16, runtime.NumCPU())) }

// take gives a blank whose group has limits l.
func (p *blanks) take(l sandbox.Limits) (*blank, error) {
	for {
		p.mu.Lock()
		n := len(p.ready)
		if n == 0 {
			p.mu.Unlock()
			return p.driver.blank(l)
		}
		b := p.ready[0]
		p.ready = p.ready[1:]
		p.mu.Unlock()
		if b.process.alive() && (b.group == nil || p.driver.groups.limit(b.group, l) == nil) {
			return b, nil
		}
		p.driver.drop(b)
	}
}

// fill starts to make up for those that were taken, unless that is under way.
func (p *blanks) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.closed || len(p.ready) >= spareBlanks() {
		return
	}
	p.filling = true
	p.work.Go(func() {
		for p.one() {
		}
	})
}

// one makes one more, and tells whether another is wanted.
func (p *blanks) one() bool {
	b, err := p.driver.blank(p.driver.defaults)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		// Whoever needs a sandbox meets the error where it can be told.
		p.driver.log.Debug("no process was started ahead", "cause", err)
		p.filling = false
		return false
	}
	p.ready = append(p.ready, b)
	p.filling = !p.closed && len(p.ready) < spareBlanks()
	return p.filling
}

// open begins to keep some ahead.
func (p *blanks) open() {
	p.mu.Lock()
	p.closed = false
	p.mu.Unlock()
	p.fill()
}

// close ends those that nobody took.
func (p *blanks) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.work.Wait()
	for _, b := range p.ready {
		p.driver.drop(b)
	}
	p.ready = nil
}

// blank starts a first process in a group with limits l. On error nothing of it is left.
func (d *Driver) blank(l sandbox.Limits) (*blank, error) {
	b := &blank{}
	if err := d.begin(b, l); err != nil {
		d.drop(b)
		return nil, err
	}
	return b, nil
}

func (d *Driver) begin(b *blank, l sandbox.Limits) (err error) {
	if d.groups != nil {
		if b.group, err = d.groups.take(l); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close() // or the end of the process would not show
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return err
	}
	b.conn = os.NewFile(uintptr(pair[0]), "control")
	if info, err := d.diary.Stat(); err == nil {
		b.diary = info.Size()
	}
	spawn := first.Spawn{Range: d.privileged, User: uint64(os.Geteuid()), Team: uint64(os.Getegid()),
		// The heap is a few hundred kilobytes; thousands of these processes live at once.
		Values: []string{"GOMAXPROCS=1", "GOGC=50", "GOTRACEBACK=single"}}
	if spawn.Bare = d.bare; d.bare {
		spawn.Range = d.lends
	}
	if spawn.Range {
		spawn.User, spawn.Team, spawn.Count = firstID, firstID, idCount
	}
	files := []*os.File{d.diary, theirs}
	if b.group != nil {
		joins, err := b.group.joins()
		if err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		defer closeAll(joins)
		spawn.Joins = uint64(len(joins))
		files = append(files, joins...)
		if b.group.fd != nil {
			spawn.Group = true
			files = append(files, b.group.fd)
		}
	}
	if b.process, err = d.spawners.start(spawn, files); err != nil {
		return fmt.Errorf("start the first process: %w", err)
	}
	if spawn.Group {
		// Commands and the first process share one group. That many small processes over
		// the memory limit cost the first one its life would turn a command's fault
		// into the sandbox's.
		score := "/proc/" + strconv.Itoa(b.process.pid) + "/oom_score_adj"
		if err := os.WriteFile(score, []byte("-1000"), 0); err != nil {
			d.log.Debug("a sandbox's first process stays in reach of the memory killer", "cause", err)
		}
	}
	return nil
}

// hand gives the process the trees of its sandbox, which Setup counts on.
func (b *blank) hand(trees []*os.File) error {
	fds := make([]int, len(trees))
	for i, f := range trees {
		fds[i] = int(f.Fd())
	}
	raw, err := b.conn.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = first.SendTrees(int(fd), fds) }); e != nil {
		return e
	}
	runtime.KeepAlive(trees)
	return err
}

// engage gives a box a process that has its trees, or why it could not be handed them.
// One that was started ahead may have died of what the machine had too little of then:
// the next takes its place.
func (d *Driver) engage(b *box, trees []*os.File) (handed, err error) {
	for range spareBlanks() + 1 {
		if b.blank != nil {
			d.drop(b.blank)
		}
		if b.blank, err = d.blanks.take(b.Limits); err != nil {
			return nil, err
		}
		handed = b.hand(trees)
		if !errors.Is(handed, unix.EPIPE) && !errors.Is(handed, unix.ECONNRESET) {
			break
		}
	}
	return handed, nil
}

// drop ends a blank that becomes no sandbox.
func (d *Driver) drop(b *blank) {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.process != nil {
		b.process.kill()
		b.process.wait()
		b.process.close()
	}
	if b.group != nil {
		d.groups.give(b.group)
	}
}

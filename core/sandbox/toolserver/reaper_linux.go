package toolserver

import (
	"sync"
	"syscall"
)

// reaper waits for every child, commands and orphans alike, in one loop.
type reaper struct {
	mu    sync.Mutex
	waits map[int]chan syscall.WaitStatus
	kick  chan struct{} // a child may have appeared
	quiet chan struct{} // closed when there is none; replaced when one starts
}

func (r *reaper) start() {
	r.waits = map[int]chan syscall.WaitStatus{}
	r.kick = make(chan struct{}, 1)
	r.quiet = make(chan struct{})
	close(r.quiet)
	go r.loop()
}

func (r *reaper) loop() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch err {
		case nil:
			r.mu.Lock()
			c := r.waits[pid]
			delete(r.waits, pid)
			r.mu.Unlock()
			if c != nil {
				c <- status
			}
		case syscall.ECHILD:
			r.mu.Lock()
			// Nothing starts while the lock is held; a child that started since the
			// call has left a kick.
			if len(r.waits) == 0 {
				select {
				case <-r.quiet:
				default:
					close(r.quiet)
				}
			}
			r.mu.Unlock()
			<-r.kick
		}
	}
}

// started runs fork, which gives the pid of a new child, and gives the channel
// that its status will come through.
func (r *reaper) started(fork func() (int, error)) (<-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return nil, err
	}
	c := make(chan syscall.WaitStatus, 1)
	r.waits[pid] = c
	select {
	case <-r.quiet:
		r.quiet = make(chan struct{})
	default:
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return c, nil
}

// idle is closed once no child is left.
func (r *reaper) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

package image

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits until no other process or goroutine holds path, which it makes. The file
// stays, the lock ends with its holder.
func lock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if held, err := tryLock(f); err != nil || held {
		return f, err
	}
	got := make(chan error, 1)
	go func() {
		err := unix.EINTR
		for errors.Is(err, unix.EINTR) {
			err, _ = unix.Flock(int(f.Fd()), unix.LOCK_EX).(unix.Errno)
		}
		if err == 0 {
			got <- nil
			return
		}
		got <- &os.PathError{Op: "lock", Path: path, Err: err}
	}()
	select {
	case err := <-got:
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	case <-ctx.Done():
		go func() {
			<-got
			f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}

// tryLock locks a file or a folder unless somebody else holds it.
func tryLock(f *os.File) (held bool, err error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return true, nil
	case unix.EWOULDBLOCK:
		return false, nil
	default:
		f.Close()
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

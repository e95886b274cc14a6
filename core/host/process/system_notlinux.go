//go:build !linux

package process

// limit does nothing: no limit can be set from outside here.
func limit(int, int64) error { return nil }

// reap waits for the program's end.
func (p *program) reap() {
	p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

//go:build !linux

package sandboxtest

// Probe does nothing on this system: the attacker is a Linux program.
func Probe() {}

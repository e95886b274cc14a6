package sandbox

import (
	"cmp"
	"time"
)

// DefaultLimits are the limits that Limits documents as defaults.
func DefaultLimits() Limits {
	return Limits{
		Memory: 512 << 20, CPUs: 1, Pids: 128, Disk: 256 << 20, Output: 1 << 20,
		Command: 60 * time.Second, Create: 30 * time.Second, Life: time.Hour,
	}
}

// Or gives l with every field that is not positive taken from d.
func (l Limits) Or(d Limits) Limits {
	return Limits{
		Memory: or(l.Memory, d.Memory), CPUs: or(l.CPUs, d.CPUs), Pids: or(l.Pids, d.Pids), Disk: or(l.Disk, d.Disk),
		Output: or(l.Output, d.Output), Command: or(l.Command, d.Command), Create: or(l.Create, d.Create), Life: or(l.Life, d.Life),
	}
}

func or[T cmp.Ordered](v, d T) T {
	var zero T
	if v > zero {
		return v
	}
	return d
}

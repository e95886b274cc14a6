// Package first is the first process of a local sandbox, and the protocol that the
// host speaks with it.
//
// It imports as little as it can, and nothing that is not initialised in
// microseconds: see init.
package first

// What a program is started to be, as argv[0]: the first process of a sandbox, or
// a spawner of such processes. The first process of a sandbox without namespaces has
// a name of its own, as nothing else tells it from the host.
const (
	Name        = "valence-sandbox"
	BareName    = "valence-sandbox-bare"
	SpawnerName = "valence-spawner"
)

// Threads is the number of threads that the first process needs at most. They are
// started before the first command, because none can be started once commands
// have used up the process limit, and a Go program dies where it cannot. The
// host adds them to the limit.
const Threads = 8

// Package first is the first process of a local sandbox, and what starts it.
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

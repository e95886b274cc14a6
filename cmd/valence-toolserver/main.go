// Command valence-toolserver is what the sandboxes of a cluster run as their first
// process: it carries out commands and handles files for a host that speaks to it
// over an exec stream. Nobody calls it by hand; deploy/Dockerfile puts it into the
// image of the tools, and an init container copies it into each pod.
package main

import (
	"os"

	"github.com/valence-rl/valence/core/sandbox/kube/inside"
)

func main() { os.Exit(inside.Main(os.Args[1:])) }

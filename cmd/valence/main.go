// Command valence trains and measures coding agents on atomic skills.
//
// Results go to standard output; progress, logs and errors to standard error.
// Exit codes: 0 ok, 1 failed, 3 finished with losses, 4 gate missed, 10
// configuration or usage, 11 plugin refused, 12 sandbox unavailable, 13 policy
// unreachable, 130 interrupted with a checkpoint saved.
package main

import (
	"os"

	"github.com/valence-rl/valence/core/sandbox/local"
)

func main() {
	local.Init()
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

//go:build !wasip1

package sdk

import (
	"context"
	"fmt"
	"os"

	"github.com/valence-rl/valence/sdk/process"
)

// Main ends an author's main function. In a process that the host has started it
// serves the registered skill, and returns when the host has no more use for it.
// Run by hand, it only says how a plugin is built, with exit status 2.
func Main() {
	s := Registered()
	if process.Wanted() {
		process.Serve(func(ctx context.Context, ask process.Ask, method uint32, in []byte) ([]byte, error) {
			return Call(ctx, s, border(ask), method, in)
		})
		return
	}
	name := "this program"
	if s != nil {
		n, v := s.Describe()
		name = fmt.Sprintf("plugin %s %s", n, v)
	}
	fmt.Fprintf(os.Stderr, `%s is loaded by valence and does nothing on its own.
Name its folder (with plugin.toml) in the run's TOML and it is built on demand, or build it by hand:

  GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o skill.wasm .
`, name)
	os.Exit(2)
}

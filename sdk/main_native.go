//go:build !wasip1

package sdk

import (
	"fmt"
	"os"
)

// Main ends an author's main function. A plugin is loaded by the host, so that
// running it as a program only says how it is built, with exit status 2.
func Main() {
	name := "this program"
	if s := Registered(); s != nil {
		n, v := s.Describe()
		name = fmt.Sprintf("plugin %s %s", n, v)
	}
	fmt.Fprintf(os.Stderr, `%s is loaded by valence and does nothing on its own.
Name its folder (with plugin.toml) in the run's TOML and it is built on demand, or build it by hand:

  GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o skill.wasm .
`, name)
	os.Exit(2)
}

//go:build !linux

package inside

import (
	"fmt"
	"os"
)

// Main says that pods run Linux.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "toolserver: it needs Linux")
	return 1
}

//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	goplugin "github.com/hashicorp/go-plugin"
)

// holdOn ends this program when the host has died: when the descriptor of this
// number, which the host holds the other end of, has come to its end. "" means
// that the host offers none.
func holdOn(number string) {
	if number == "" {
		return
	}
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil || fd < 3 {
		fmt.Fprintf(os.Stderr, "%s is no file descriptor: %q\n", Lifeline, number)
		os.Exit(1)
	}
	syscall.CloseOnExec(int(fd))
	f := os.NewFile(uintptr(fd), Lifeline)
	go func() {
		var b [1]byte
		for {
			if _, err := f.Read(b[:]); err != nil {
				os.RemoveAll(os.Getenv(goplugin.EnvUnixSocketDir))
				os.Exit(1)
			}
		}
	}()
}

// Program rude serves a plugin's process by hand and does what its requests say.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/valence-rl/valence/sdk/process"
	"github.com/valence-rl/valence/sdk/wire"
)

func main() {
	var mu sync.Mutex
	var kept process.Ask
	process.Serve(func(ctx context.Context, ask process.Ask, _ uint32, in []byte) ([]byte, error) {
		switch string(in) {
		case "number":
			return fmt.Append(nil, os.Getpid()), nil
		case "child":
			cmd := exec.Command("sleep", "1000")
			err := cmd.Start()
			if err != nil {
				return nil, err
			}
			return fmt.Append(nil, cmd.Process.Pid), nil
		case "wait":
			_, err := ask(ctx, wire.HostLog, nil)
			return fmt.Append(nil, os.Getpid()), err
		case "keep":
			mu.Lock()
			kept = ask
			mu.Unlock()
			return nil, nil
		case "use what was kept":
			mu.Lock()
			defer mu.Unlock()
			return kept(ctx, wire.HostRun, nil)
		case "no such service":
			return ask(ctx, 9, nil)
		case "long answer":
			return make([]byte, wire.MaxMessage+1), nil
		case "sleep":
			select {}
		case "stop":
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			select {}
		case "hang up":
			for fd := range 256 {
				if _, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE); err == nil {
					syscall.Close(fd)
				}
			}
			select {}
		case "be killed":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return in, nil
	})
}

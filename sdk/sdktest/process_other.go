//go:build !unix

package sdktest

import "os/exec"

func ownGroup(*exec.Cmd) {}

func signal(*exec.ExitError) int { return 0 }

package main

import (
	"context"
	"os/exec"
	"syscall"

	"github.com/valence-rl/valence/core/diag"
)

// checkSandbox tries the namespaces that a sandbox consists of.
func checkSandbox(ctx context.Context) check {
	c := check{Name: "sandbox", Kind: diag.KindSandbox}
	cmd := exec.CommandContext(ctx, "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	if err := cmd.Run(); err != nil {
		c.Status, c.Detail = statusFail, "namespaces are refused: "+err.Error()
		c.Remedy = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or run as root"
		return c
	}
	c.Status, c.Detail = statusOK, "user, mount, pid, net, ipc and uts namespaces"
	return c
}

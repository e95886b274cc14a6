package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

func opener(o Options) sandboxtest.Factory {
	return func(t *testing.T) sandbox.Driver {
		t.Helper()
		o.Dir = t.TempDir()
		d, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// oneOfMany is for tests that put the suite to one more level: with the race detector,
// which has enough in a few of them, they are left out.
func oneOfMany(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("this level goes through the suite without -short")
	}
}

// Each level that a machine may leave to a driver goes through the whole suite.
func TestBare(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, opener(Options{Bare: true, refused: refused{namespaces: true}}))
}

func TestBareWithoutGroups(t *testing.T) {
	t.Parallel()
	oneOfMany(t)
	sandboxtest.Run(t, opener(Options{Bare: true, refused: refused{namespaces: true, groups: true}}))
}

func TestWithoutGroups(t *testing.T) {
	t.Parallel()
	oneOfMany(t)
	sandboxtest.Run(t, opener(Options{refused: refused{groups: true}}))
}

func TestDisk(t *testing.T) {
	t.Parallel()
	oneOfMany(t)
	sandboxtest.Run(t, opener(Options{Upper: UpperDisk}))
}

func TestWithoutProcfs(t *testing.T) {
	t.Parallel()
	oneOfMany(t)
	sandboxtest.Run(t, opener(Options{refused: refused{procfs: true}}))
}

// refuseNamespaces, in the environment, makes a test run refuse itself namespaces, in
// the user namespace that it has been started in.
const refuseNamespaces = "VALENCE_TEST_REFUSE"

func refuse() {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Println("refuse namespaces:", err)
		os.Exit(1)
	}
}

// Where the machine really refuses namespaces, a driver says so, and goes on if asked.
func TestRefusedNamespaces(t *testing.T) {
	t.Parallel()
	if os.Getenv(refuseNamespaces) == "" {
		id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		if os.Geteuid() == 0 {
			id[0].HostID = nobody
		}
		again(t, 0o755, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: id, GidMappings: id,
			Credential: &syscall.Credential{NoSetGroups: true}}, "^TestRefusedNamespaces$", refuseNamespaces+"=1")
		return
	}
	_, err := New(Options{Dir: t.TempDir()})
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != "S001" || !strings.Contains(d.Hint, "user.max_user_namespaces") {
		t.Errorf("got %v", err)
	}
	bare := opener(Options{Bare: true})(t)
	if level := bare.Isolation().Level; level != sandbox.LevelNone {
		t.Errorf("level %s", level)
	}
	bare.Close()
	sandboxtest.Run(t, opener(Options{Bare: true}))
}

// Nobody gets the lowest level without asking for it.
func TestBareIsAskedFor(t *testing.T) {
	_, err := New(Options{Dir: t.TempDir(), refused: refused{namespaces: true}})
	if diag.KindOf(err) != diag.KindSandbox || !strings.Contains(err.Error(), "S001") {
		t.Errorf("got %v", err)
	}
}

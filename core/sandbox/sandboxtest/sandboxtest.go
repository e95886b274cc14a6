// Package sandboxtest is the conformance suite of sandbox.Driver: what every
// driver must do, and which attacks it must withstand.
//
// A test binary that runs it calls [Probe] first thing in TestMain: the suite puts
// the binary into its workspaces and starts it there as the attacker.
package sandboxtest

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// Factory gives a fresh driver, which the suite closes.
type Factory func(t *testing.T) sandbox.Driver

// Run runs the suite: one subtest for each obligation, with a driver of its own.
// What a driver names in Isolation.Missing is not asked of it, and logged.
func Run(t *testing.T, open Factory) {
	for _, c := range obligations {
		t.Run(c.name, func(t *testing.T) {
			d := open(t)
			s := &suite{T: t, driver: d, ctx: t.Context()}
			defer func() {
				if err := d.Close(); err != nil {
					t.Errorf("close the driver: %v", err)
				}
			}()
			c.test(s)
		})
	}
}

type obligation struct {
	name string
	test func(*suite)
}

var obligations = []obligation{
	{"Isolation", isolation}, {"Lifecycle", lifecycle}, {"Malformed", malformed}, {"Creation", creation}, {"Life", life}, {"Death", death},
	{"Leftovers", leftovers},
	{"Exec", execute}, {"ExitCodes", exitCodes}, {"Environment", environment}, {"Output", output}, {"Deadline", deadline},
	{"Cancel", cancel}, {"Background", background}, {"Concurrency", concurrency}, {"Orphans", orphans},
	{"Files", files}, {"Binary", binary}, {"FileAttacks", fileAttacks},
	{"Diff", diff}, {"DiffAttacks", diffAttacks}, {"DiffReplacements", diffReplacements}, {"DiffHostile", diffHostile}, {"Workspace", workspace},
	{"Network", network}, {"Secrets", secrets}, {"Descriptors", descriptors}, {"Kernel", kernel}, {"HostFiles", hostFiles},
	{"Processes", processes}, {"Memory", memory}, {"Disk", disk}, {"CPU", cpu}, {"Fairness", fairness},
}

type suite struct {
	*testing.T
	driver sandbox.Driver
	ctx    context.Context
}

// attacker is this binary, to be run inside.
var attacker = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("/proc/self/exe") })

const attackerName = "sandbox-probe"

func (s *suite) make(spec sandbox.Spec) sandbox.Sandbox {
	s.Helper()
	b, err := s.driver.Create(s.ctx, spec)
	if err != nil {
		s.Fatalf("create: %v", err)
	}
	s.Cleanup(func() { b.Close() })
	return b
}

// plain makes a sandbox with a few files and default limits.
func (s *suite) plain() sandbox.Sandbox {
	s.Helper()
	return s.make(sandbox.Spec{Name: s.Name(), Workspace: sdk.Workspace{Files: tree()}})
}

// armed makes a sandbox with the attacker in its workspace.
func (s *suite) armed(l sandbox.Limits) sandbox.Sandbox {
	s.Helper()
	self, err := attacker()
	if err != nil {
		s.Fatal(err)
	}
	return s.make(sandbox.Spec{Name: s.Name(), Limits: l, Workspace: sdk.Workspace{
		Files: []sdk.File{{Path: attackerName, Data: self, Exec: true}},
	}})
}

func tree() []sdk.File {
	return []sdk.File{
		{Path: "README.md", Data: []byte("hello\n")},
		{Path: "run.sh", Data: []byte("#!/bin/sh\necho ran \"$@\"\n"), Exec: true},
		{Path: "pkg/__init__.py"},
		{Path: "pkg/deep/er/mod.py", Data: []byte("x = 1\n")},
		{Path: "pkg/deep/other.py", Data: []byte("y = 1\n")},
		{Path: ".git/config", Data: []byte("[core]\n")},
		{Path: "vendor/lib/.git/HEAD", Data: []byte("ref\n")},
		{Path: "vendor/lib/code.c", Data: []byte("int x;\n")},
	}
}

func (s *suite) run(b sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	s.Helper()
	r, err := b.Exec(s.ctx, c)
	if err != nil {
		s.Fatalf("exec %q %q: %v", c.Shell, c.Args, err)
	}
	return r
}

// shell runs a command line that must end with code 0, and gives its output.
func (s *suite) shell(b sandbox.Sandbox, line string) string {
	s.Helper()
	r := s.run(b, sandbox.Command{Shell: line})
	if r.ExitCode != 0 || r.TimedOut {
		s.Fatalf("%q ended with code %d, timed out %v: %s", line, r.ExitCode, r.TimedOut, clip(r.Output))
	}
	return string(r.Output)
}

// alive fails unless the sandbox still runs commands.
func (s *suite) alive(b sandbox.Sandbox) {
	s.Helper()
	if out := s.shell(b, "echo alive"); out != "alive\n" {
		s.Fatalf("got %q", out)
	}
}

func (s *suite) write(b sandbox.Sandbox, c ...sdk.Change) {
	s.Helper()
	if err := b.Write(s.ctx, c...); err != nil {
		s.Fatalf("write: %v", err)
	}
}

func (s *suite) diff(b sandbox.Sandbox) []sdk.Change {
	s.Helper()
	c, err := b.Diff(s.ctx, 0)
	if err != nil {
		s.Fatalf("diff: %v", err)
	}
	if !slices.IsSortedFunc(c, func(a, b sdk.Change) int { return strings.Compare(a.Path, b.Path) }) {
		s.Fatalf("the changes are not sorted: %v", paths(c))
	}
	return c
}

func (s *suite) wantKind(k diag.Kind, what string, err error) {
	s.Helper()
	if err == nil || diag.KindOf(err) != k {
		s.Errorf("%s: want an error of kind %s, got %v (kind %s)", what, k, err, diag.KindOf(err))
	}
}

// until calls f until it gives true. Every call of f goes into the sandbox and
// back, so the loop does not spin; the test's deadline bounds it.
func (s *suite) until(what string, f func() bool) {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); {
		if time.Now().After(end) {
			s.Fatalf("waited in vain until %s", what)
		}
	}
}

// enforced tells whether the driver claims a limit; what it does not claim it must
// name as missing.
func (s *suite) enforced(limit string) bool {
	s.Helper()
	if slices.Contains(s.driver.Isolation().Limits, limit) {
		return true
	}
	if s.contained(limit) {
		s.Errorf("the limit %q is neither enforced nor reported missing: %+v", limit, s.driver.Isolation())
	}
	return false
}

// contained tells whether the driver answers for name, as it does unless it names
// it as missing.
func (s *suite) contained(name string) bool {
	s.Helper()
	why, missing := s.driver.Isolation().Lacks(name)
	if missing {
		s.Logf("missing by the driver's own account: %s: %s", name, why)
	}
	return !missing
}

func paths(c []sdk.Change) []string {
	out := make([]string, len(c))
	for i := range c {
		out[i] = c[i].Path
		if c[i].Deleted {
			out[i] = "-" + out[i]
		}
	}
	return out
}

func clip(b []byte) string {
	const most = 2000
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(bytes.TrimSpace(b))
}

package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// isolation: a driver says what it is, the same every time, and leaves no limit out.
func isolation(s *suite) {
	i := s.driver.Isolation()
	if i.Driver == "" || i.Level == "" {
		s.Errorf("the isolation is not reported: %+v", i)
	}
	for _, l := range sandbox.AllLimits() {
		if why, missing := i.Lacks(l); missing == slices.Contains(i.Limits, l) || (missing && why == "") {
			s.Errorf("the limit %q must be either enforced or missing with a reason: %+v", l, i)
		}
	}
	for _, l := range i.Limits {
		if !slices.Contains(sandbox.AllLimits(), l) {
			s.Errorf("unknown limit %q", l)
		}
	}
	for _, m := range i.Missing {
		if name, why, ok := strings.Cut(m, ": "); !ok || name == "" || why == "" || strings.Contains(m, "\n") {
			s.Errorf("%q is not one line of name and reason", m)
		}
	}
	s.alive(s.plain())
	if d := cmp.Diff(i, s.driver.Isolation()); d != "" {
		s.Errorf("the isolation has changed: %s", d)
	}
	clear(i.Limits)
	clear(i.Missing)
	if d := s.driver.Isolation(); slices.Contains(d.Limits, "") || slices.Contains(d.Missing, "") {
		s.Error("a caller changed the driver's account of itself")
	}
}

// creation has a deadline of its own, apart from that of commands.
func creation(s *suite) {
	_, err := s.driver.Create(s.ctx, sandbox.Spec{Name: "late", Limits: sandbox.Limits{Create: time.Nanosecond, Command: time.Hour}})
	s.wantKind(diag.KindSandbox, "a creation past its deadline", err)
	b := s.make(sandbox.Spec{Limits: sandbox.Limits{Create: time.Hour, Command: 300 * time.Millisecond}})
	if r := s.run(b, sandbox.Command{Shell: "sleep 100000"}); !r.TimedOut {
		s.Errorf("the command's deadline was not kept: %+v", r)
	}
	s.alive(b)
	s.alive(s.plain())
}

// leftovers: neither a sandbox nor a driver leaves processes on this machine.
func leftovers(s *suite) {
	mark := "sandboxtest-" + rand.Text()
	for _, close := range []func(sandbox.Sandbox) error{
		func(b sandbox.Sandbox) error { return b.Close() },
		func(sandbox.Sandbox) error { return s.driver.Close() },
	} {
		b := s.make(sandbox.Spec{Env: []string{"MARK=" + mark}})
		r := s.run(b, sandbox.Command{Shell: "(setsid nohup sh -c 'trap \"\" TERM HUP INT; while :; do sleep 100006; done' >/dev/null 2>&1 &) ; sleep 100006 >/dev/null 2>&1 & echo x > left"})
		if r.ExitCode != 0 {
			s.Fatalf("code %d: %s", r.ExitCode, clip(r.Output))
		}
		if err := close(b); err != nil {
			s.Fatal(err)
		}
		s.until("no process of the sandbox is left", func() bool { return len(s.marked(mark)) == 0 })
	}
}

// marked lists the processes of this machine that have text in their environment.
func (s *suite) marked(text string) []string {
	s.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), text) {
			out = append(out, p)
		}
	}
	return out
}

func lifecycle(s *suite) {
	b := s.plain()
	s.alive(b)
	for range 2 {
		if err := b.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	}
	for what, err := range everything(s.ctx, b) {
		s.wantKind(diag.KindSandbox, what+" after close", err)
	}
	other := s.plain()
	s.alive(other)
	if err := s.driver.Close(); err != nil {
		s.Fatal(err)
	}
	for what, err := range everything(s.ctx, other) {
		s.wantKind(diag.KindSandbox, what+" after the driver's close", err)
	}
	_, err := s.driver.Create(s.ctx, sandbox.Spec{})
	s.wantKind(diag.KindSandbox, "create after the driver's close", err)
}

// everything calls every method and gives the errors.
func everything(ctx context.Context, b sandbox.Sandbox) map[string]error {
	_, exec := b.Exec(ctx, sandbox.Command{Shell: "true"})
	_, read := b.Read(ctx, "README.md", 0)
	_, diff := b.Diff(ctx, 0)
	return map[string]error{"exec": exec, "read": read, "diff": diff, "write": b.Write(ctx, sdk.Change{Path: "x"})}
}

func malformed(s *suite) {
	file := func(p string) sdk.Workspace { return sdk.Workspace{Files: []sdk.File{{Path: p, Data: []byte("x")}}} }
	for name, w := range map[string]sdk.Workspace{
		"a path that leaves":     file("../x"),
		"an absolute path":       file("/x"),
		"an empty path":          file(""),
		"a file twice":           {Files: []sdk.File{{Path: "a"}, {Path: "a"}}},
		"a file as a folder":     {Files: []sdk.File{{Path: "a"}, {Path: "a/b"}}},
		"a patch that fails":     {Files: []sdk.File{{Path: "a", Data: []byte("1\n")}}, Patches: []string{"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-2\n+3\n"}},
		"a relative directory":   {Dir: "work"},
		"the root as directory":  {Dir: "/"},
		"an unclean directory":   {Dir: "/a/../b"},
		"a variable without =":   {Env: []string{"NOVALUE"}},
		"a variable of no name":  {Env: []string{"=x"}},
		"a zero byte in a value": {Env: []string{"A=\x00"}},
	} {
		_, err := s.driver.Create(s.ctx, sandbox.Spec{Name: name, Workspace: w})
		s.wantKind(diag.KindData, name, err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.driver.Create(ctx, sandbox.Spec{}); !errors.Is(err, context.Canceled) {
		s.Errorf("create with a cancelled context: %v", err)
	}
}

func life(s *suite) {
	b := s.make(sandbox.Spec{Name: "mayfly", Limits: sandbox.Limits{Life: time.Second, Command: time.Hour}})
	_, err := b.Exec(s.ctx, sandbox.Command{Shell: "sleep 100000"})
	s.wantKind(diag.KindSandbox, "a command past the sandbox's life", err)
}

// death: what is pending when the sandbox dies must not be lost or hang.
func death(s *suite) {
	b := s.plain()
	const pending = 4
	errs := make(chan error, pending)
	for i := range pending {
		go func() {
			_, err := b.Exec(s.ctx, sandbox.Command{Shell: fmt.Sprintf("touch started%d; sleep 100000", i), Timeout: time.Hour})
			errs <- err
		}()
	}
	s.until("all commands have started", func() bool {
		return strings.TrimSpace(s.shell(b, "ls | grep -c started; true")) == fmt.Sprint(pending)
	})
	b.Close()
	for range pending {
		s.wantKind(diag.KindSandbox, "a command whose sandbox died", <-errs)
	}
}

func deadline(s *suite) {
	b := s.plain()
	for name, line := range map[string]string{
		"plain":            "echo before; sleep 100000",
		"ignores signals":  "echo before; trap '' TERM INT HUP QUIT; while :; do sleep 100000; done",
		"in another group": "echo before; setsid sleep 100001 & setsid sleep 100002 >/dev/null 2>&1 & wait",
	} {
		r := s.run(b, sandbox.Command{Shell: line, Timeout: 500 * time.Millisecond})
		if !r.TimedOut || r.ExitCode != 137 || string(r.Output) != "before\n" {
			s.Errorf("%s: timed out %v, code %d, output %q", name, r.TimedOut, r.ExitCode, clip(r.Output))
		}
		if !s.quiet(b) {
			s.Errorf("%s: something survived", name)
		}
	}
	s.alive(b)
	short := s.make(sandbox.Spec{Limits: sandbox.Limits{Command: 300 * time.Millisecond}})
	if r := s.run(short, sandbox.Command{Shell: "sleep 100000"}); !r.TimedOut {
		s.Errorf("the sandbox's own limit did not end the command: %+v", r)
	}
}

// quiet tells whether nothing runs in the sandbox beside the one who asks.
func (s *suite) quiet(b sandbox.Sandbox) bool {
	s.Helper()
	// A signal to everybody reaches whom a command can reach, whatever it sees of others.
	// What is not descended from process 1 is no command: it brings commands in.
	others := `exec 2>/dev/null; kill -s 0 -1 || exit 0
for p in /proc/[0-9]*; do
	p=${p#/proc/}; [ $p != 1 ] && [ $p != $$ ] && while read key value; do [ "$key" = PPid: ] && [ $value != 0 ] && echo $p; done < /proc/$p/status
done; true`
	if _, among := s.driver.Isolation().Lacks("isolation"); among {
		// It does not fail where it reaches nobody but there are others.
		others = "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p != $$ ] && kill -s 0 $p 2>/dev/null && echo $p; done; true"
	}
	return s.shell(b, others) == ""
}

func cancel(s *suite) {
	b := s.plain()
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := b.Exec(ctx, sandbox.Command{Shell: "touch started; sleep 100003", Timeout: time.Hour})
		done <- err
	}()
	s.until("the command has started", func() bool { _, err := b.Read(s.ctx, "started", 0); return err == nil })
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.Errorf("got %v", err)
	}
	s.until("the cancelled command is gone", func() bool { return s.quiet(b) })
	s.alive(b)
	if _, err := b.Exec(ctx, sandbox.Command{Shell: "true"}); !errors.Is(err, context.Canceled) {
		s.Errorf("a cancelled context: %v", err)
	}
}

func background(s *suite) {
	b := s.plain()
	// If these held the call up it would run into its deadline.
	for _, line := range []string{
		"sleep 100004 & echo started",
		"(setsid nohup sh -c 'trap \"\" TERM HUP INT; while :; do sleep 100004; done' &) ; echo started",
		"while :; do echo noise; sleep 0.01; done & echo started",
	} {
		r := s.run(b, sandbox.Command{Shell: line, Timeout: 30 * time.Second})
		if r.TimedOut || r.ExitCode != 0 || !strings.Contains(string(r.Output), "started\n") {
			s.Errorf("%q: timed out %v, code %d, output %q", line, r.TimedOut, r.ExitCode, clip(r.Output))
		}
	}
	if s.quiet(b) {
		s.Error("a background process did not outlive its command")
	}
	// A background process that answers later commands.
	s.shell(b, "mkfifo ask reply; while read q < ask; do echo got $q > reply; done > /dev/null 2>&1 &")
	if out := s.shell(b, "echo one > ask; cat reply"); out != "got one\n" {
		s.Errorf("got %q", out)
	}
}

func concurrency(s *suite) {
	const boxes, commands = 8, 6
	var all sync.WaitGroup
	for i := range boxes {
		all.Add(1)
		go func() {
			defer all.Done()
			b, err := s.driver.Create(s.ctx, sandbox.Spec{Workspace: sdk.Workspace{Files: tree()}})
			if err != nil {
				s.Errorf("create: %v", err)
				return
			}
			defer b.Close()
			var one sync.WaitGroup
			for j := range commands {
				one.Add(1)
				go func() {
					defer one.Done()
					want := fmt.Sprintf("%d/%d\n", i, j)
					name := fmt.Sprintf("out%d", j)
					r, err := b.Exec(s.ctx, sandbox.Command{Shell: "printf '%s\\n' " + strings.TrimSpace(want) + " | tee " + name})
					if err != nil || string(r.Output) != want {
						s.Errorf("want %q, got %q, %v", want, r.Output, err)
					}
					if data, err := b.Read(s.ctx, name, 0); err != nil || string(data) != want {
						s.Errorf("want %q in the file, got %q, %v", want, data, err)
					}
				}()
			}
			one.Wait()
			if c, err := b.Diff(s.ctx, 0); err != nil || len(c) != commands {
				s.Errorf("%d changes, %v: sandboxes are not apart", len(c), err)
			}
		}()
	}
	all.Wait()
}

func orphans(s *suite) {
	b := s.plain()
	s.shell(b, "for i in $(seq 50); do (true & true &) ; done")
	s.until("no zombie is left", func() bool { return s.quiet(b) })
}

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/valence-rl/valence/core/host/transport"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

func rude(t testing.TB) *Process {
	t.Helper()
	p, err := Open(t.Context(), Config{Command: []string{build(t, "./testdata/rude")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// ask gives the answer to a request of rude's.
func ask(t testing.TB, p *Process, request string) string {
	t.Helper()
	out, err := p.Call(t.Context(), wire.MethodEvaluate, []byte(request), refuse)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// fails checks how a call failed.
func fails(t testing.TB, err error, reason transport.Reason, words string) *transport.Failure {
	t.Helper()
	var f *transport.Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %v, want a *transport.Failure", err)
	}
	if f.Reason != reason || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want %s: %s", f.Reason, err, reason, words)
	}
	return f
}

// ends waits for the end of a process.
func ends(t testing.TB, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("API_KEY", "secret")
	t.Setenv("LANG", "C.UTF-8")
	p, err := Open(t.Context(), Config{Command: []string{build(t, "../testdata/wild")}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	out, err := p.Call(t.Context(), wire.MethodEvaluate, wire.Marshal(&sdk.EvaluateRequest{Task: sdk.Task{Prompt: "environment"}}), refuse)
	if err != nil {
		t.Fatal(err)
	}
	var v sdk.Verdict
	if err := wire.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(v.Reason, "secret") || !strings.Contains(v.Reason, "LANG=C.UTF-8") || !strings.Contains(v.Reason, "PATH="+os.Getenv("PATH")) {
		t.Errorf("%s", v.Reason)
	}
}

// TestStart has programs fail before they can be asked.
func TestStart(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	for _, c := range []struct {
		name    string
		command []string
		reason  transport.Reason
		words   string
		printed string
	}{
		{"no such program", []string{"/nowhere/at/all"}, transport.ReasonTrap, "no such file", ""},
		{"exits", sh("echo sorry >&2; exit 3"), transport.ReasonExit, "ended its program with status 3", "sorry\n"},
		{"exits well", sh("exit 0"), transport.ReasonExit, "status 0", ""},
		{"is killed", sh("kill -9 $$"), transport.ReasonTrap, "ended by signal: killed", ""},
		{"another program", sh("echo hello; echo help >&2; read forever; exec sleep 1000"), transport.ReasonTrap, `"hello" on standard output is no handshake`, "hello"},
		{"endless line", sh("exec tr '\\0' x < /dev/zero"), transport.ReasonTrap, `is no handshake`, "xxx"},
		{"another version", sh("echo '1|7|unix|socket|grpc|cert'; exec sleep 1000"), transport.ReasonTrap, `speaks version "7" of the process protocol, this host 1`, ""},
		{"nobody listens", sh("echo '1|1|unix|/nowhere|grpc|cert'; exec sleep 1000"), transport.ReasonTrap, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			_, err := Open(t.Context(), Config{Command: c.command})
			f := fails(t, err, c.reason, c.words)
			if !f.Starting || !strings.HasPrefix(f.Error(), "start: ") || !strings.Contains(f.Printed, c.printed) {
				t.Errorf("%v, printed %.80q", f, f.Printed)
			}
			if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	t.Run("says nothing", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Open(ctx, Config{Command: sh("exec sleep 1000")})
		fails(t, err, transport.ReasonDeadline, "start: ")
	})
	for _, c := range []Config{{}, {Command: []string{"sh"}}, {Command: sh("true"), Memory: -1}} {
		if _, err := Open(t.Context(), c); err == nil {
			t.Errorf("opens %+v", c)
		}
	}
}

// TestCloseLeavesNothing: not even what the plugin has started.
func TestCloseLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := rude(t)
	number, child := ask(t, p, "number"), ask(t, p, "child")
	dir := p.current.program.dir
	p.Close()
	ends(t, number)
	ends(t, child)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// TestEnds ends the program in ways that the conformance suite has not.
func TestEnds(t *testing.T) {
	p := rude(t)
	for _, c := range []struct {
		request string
		words   string
	}{
		{"be killed", "the plugin's process ended by signal: killed"},
		{"hang up", "the plugin broke the connection off"},
	} {
		child := ask(t, p, "child")
		_, err := p.Call(t.Context(), wire.MethodEvaluate, []byte(c.request), refuse)
		fails(t, err, transport.ReasonTrap, c.words)
		ends(t, child)
		ask(t, p, "number")
	}
}

// TestIdleEnd: the program ends while nobody waits for it, and nobody is told.
func TestIdleEnd(t *testing.T) {
	p := rude(t)
	for range 3 {
		number := ask(t, p, "number")
		n, _ := strconv.Atoi(number)
		gone := p.current.program.gone
		unix.Kill(n, unix.SIGKILL)
		<-gone
		if now := ask(t, p, "number"); now == number {
			t.Error("the dead answer")
		}
	}
}

// TestGivenUp: a call that passed its deadline takes its process out of service,
// and the calls beside it end in peace.
func TestGivenUp(t *testing.T) {
	p := rude(t)
	for _, request := range []string{"sleep", "stop"} {
		if request == "stop" && p.current == nil {
			t.Fatal("no process")
		}
		inside, leave := make(chan string), make(chan bool)
		var beside sync.WaitGroup
		if request == "sleep" { // nothing ends in peace in a stopped process
			beside.Go(func() {
				out, err := p.Call(t.Context(), wire.MethodEvaluate, []byte("wait"), func(context.Context, uint32, []byte) ([]byte, error) {
					inside <- ""
					<-leave
					return nil, nil
				})
				if err != nil {
					t.Error(err)
				}
				inside <- string(out)
			})
			<-inside
		}
		number := ask(t, p, "number")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := p.Call(ctx, wire.MethodEvaluate, []byte(request), refuse)
		cancel()
		fails(t, err, transport.ReasonDeadline, "deadline")
		if now := ask(t, p, "number"); now == number {
			t.Error("a new call comes to the old process")
		}
		if request == "sleep" {
			close(leave)
			if old := <-inside; old != number {
				t.Errorf("answer of process %q, want %s", old, number)
			}
		}
		beside.Wait()
		ends(t, number)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.retired) > 0 || p.failures > 0 {
		t.Errorf("%d retired, %d failures", len(p.retired), p.failures)
	}
}

// TestCrowd: of too many processes that wait for the end of their last calls, the
// oldest is killed.
func TestCrowd(t *testing.T) {
	p := rude(t)
	var all sync.WaitGroup
	errs := make([]error, maxRetired+1)
	leave, first := make(chan bool), make(chan bool)
	for n := range errs {
		inside := make(chan bool)
		all.Go(func() {
			_, errs[n] = p.Call(t.Context(), wire.MethodEvaluate, []byte("wait"), func(ctx context.Context, _ uint32, _ []byte) ([]byte, error) {
				close(inside)
				select {
				case <-leave:
				case <-ctx.Done():
				}
				return nil, nil
			})
			if n == 0 {
				close(first)
			}
		})
		<-inside
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := p.Call(ctx, wire.MethodEvaluate, []byte("sleep"), refuse)
		cancel()
		fails(t, err, transport.ReasonDeadline, "")
	}
	<-first
	close(leave)
	all.Wait()
	fails(t, errs[0], transport.ReasonTrap, "calls beside this one had not ended")
	for n, err := range errs[1:] {
		if err != nil {
			t.Errorf("call %d: %v", n+1, err)
		}
	}
	if p.failures > 0 {
		t.Errorf("%d failures, though nothing failed by itself", p.failures)
	}
}

// TestBreaches: a call reaches its own services only, and what the protocol does not
// allow is refused.
func TestBreaches(t *testing.T) {
	p := rude(t)
	ask(t, p, "keep")
	_, err := p.Call(t.Context(), wire.MethodEvaluate, []byte("use what was kept"), func(context.Context, uint32, []byte) ([]byte, error) {
		t.Error("asked for another call")
		return nil, nil
	})
	fails(t, err, transport.ReasonError, "no call")
	_, err = p.Call(t.Context(), wire.MethodEvaluate, []byte("no such service"), refuse)
	fails(t, err, transport.ReasonError, "")
	_, err = p.Call(t.Context(), 9, nil, refuse)
	fails(t, err, transport.ReasonTrap, "the plugin broke the protocol: Unimplemented")
	_, err = p.Call(t.Context(), wire.MethodEvaluate, []byte("long answer"), refuse)
	fails(t, err, transport.ReasonTrap, "the plugin broke the protocol: ResourceExhausted")
	ask(t, p, "number")
}

// TestFailuresInARow: a start is delayed after failures in a row, no longer than
// the caller waits; an answer ends the row.
func TestFailuresInARow(t *testing.T) {
	p := rude(t)
	crash := func() {
		_, err := p.Call(t.Context(), wire.MethodEvaluate, []byte("be killed"), refuse)
		fails(t, err, transport.ReasonTrap, "killed")
	}
	crash()
	crash()
	if p.failures != 2 {
		t.Errorf("%d failures in a row, want 2", p.failures)
	}
	ask(t, p, "number")
	if p.failures != 0 {
		t.Errorf("%d failures after an answer", p.failures)
	}
	crash()
	p.failures = 100
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, wire.MethodEvaluate, nil, refuse)
	if f := fails(t, err, transport.ReasonDeadline, "start: "); !f.Starting {
		t.Error("not marked as starting")
	}
}

func TestBackOff(t *testing.T) {
	var got []time.Duration
	for n := range 12 {
		got = append(got, backOff(n)/time.Millisecond)
	}
	if want := []time.Duration{0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if backOff(1<<30) != longestPause {
		t.Error("the pause grows without end")
	}
}

// TestLifeline kills a host, and its plugin's process ends.
func TestLifeline(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asHost+"="+build(t, "./testdata/rude"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var number, dir, failed string
	if _, err := fmt.Fscan(out, &number, &dir, &failed); err != nil || failed != "<nil>" {
		t.Fatal(number, dir, failed, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	ends(t, number)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

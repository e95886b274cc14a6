package sandboxtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

func execute(s *suite) {
	b, placed := s.plain(), s.contained("paths")
	for _, c := range []struct {
		name    string
		command sandbox.Command
		output  string // "*" for anything
		code    int
	}{
		{"shell", sandbox.Command{Shell: "echo $((1+2)) | tr 3 4"}, "4\n", 0},
		{"vector", sandbox.Command{Args: []string{"printf", "%s|", "a b", "$HOME", ""}}, "a b|$HOME||", 0},
		{"program of the workspace", sandbox.Command{Args: []string{"./run.sh", "x"}}, "ran x\n", 0},
		{"program by its full path", sandbox.Command{Args: []string{"/workspace/run.sh"}}, "ran\n", 0},
		{"exit code", sandbox.Command{Shell: "exit 7"}, "", 7},
		{"signal", sandbox.Command{Shell: "kill -TERM $$"}, "", 143},
		{"killed", sandbox.Command{Shell: "kill -KILL $$"}, "", 137},
		{"stderr is interleaved", sandbox.Command{Shell: "echo 1; echo 2 >&2; echo 3"}, "1\n2\n3\n", 0},
		{"directory", sandbox.Command{Shell: "pwd"}, "/workspace\n", 0},
		{"relative directory", sandbox.Command{Shell: "pwd; ls", Dir: "pkg/deep"}, "/workspace/pkg/deep\ner\nother.py\n", 0},
		{"absolute directory", sandbox.Command{Shell: "pwd", Dir: "/tmp"}, "/tmp\n", 0},
		{"no stdin", sandbox.Command{Shell: "cat; echo end"}, "end\n", 0},
		{"stdin", sandbox.Command{Shell: "tr a-z A-Z", Stdin: []byte("loud")}, "LOUD", 0},
		{"stdin that nobody reads", sandbox.Command{Shell: "echo deaf", Stdin: bytes.Repeat([]byte("x"), 1<<20)}, "deaf\n", 0},
		{"absent program", sandbox.Command{Args: []string{"no-such-program"}}, "*", 127},
		{"absent command", sandbox.Command{Shell: "no-such-program"}, "*", 127},
		{"not executable", sandbox.Command{Args: []string{"./README.md"}}, "*", 126},
		{"absent directory", sandbox.Command{Shell: "true", Dir: "nowhere"}, "*", 126},
		{"zero byte", sandbox.Command{Shell: "echo a\x00b"}, "*", 126},
		{"vast command line", sandbox.Command{Args: []string{"echo", strings.Repeat("x", 4<<20)}}, "*", 126},
	} {
		if !placed && (strings.Contains(c.command.Shell, "pwd") || slices.Contains(c.command.Args, "/workspace/run.sh")) {
			continue
		}
		r := s.run(b, c.command)
		if r.ExitCode != c.code || (c.output != "*" && string(r.Output) != c.output) || r.TimedOut || r.Truncated || r.Bytes != int64(len(r.Output)) {
			s.Errorf("%s: code %d, output %q, timed out %v, truncated %v, bytes %d", c.name, r.ExitCode, clip(r.Output), r.TimedOut, r.Truncated, r.Bytes)
		}
	}
	_, err := b.Exec(s.ctx, sandbox.Command{})
	if err == nil || diag.KindOf(err) == diag.KindSandbox {
		s.Errorf("no command at all: %v", err)
	}
	if out := s.shell(b, "rm -rf ./* && ls; cd ~ && pwd | grep -c ."); !strings.HasSuffix(out, "1\n") {
		s.Errorf("after the workspace was emptied: %q", out)
	}
	s.alive(b)
}

// exitCodes: every code and every signal comes through as a shell would give it.
func exitCodes(s *suite) {
	b := s.plain()
	for _, code := range []int{0, 1, 2, 42, 126, 127, 128, 137, 255} {
		if r := s.run(b, sandbox.Command{Shell: fmt.Sprintf("exit %d", code)}); r.ExitCode != code || r.TimedOut {
			s.Errorf("exit %d: got %d, timed out %v", code, r.ExitCode, r.TimedOut)
		}
	}
	for _, signal := range []int{1, 2, 3, 6, 9, 11, 13, 15} {
		// Some shells do not die of every signal, so it is another program that does.
		line := fmt.Sprintf("(while kill -%d $$; do :; done) > /dev/null 2>&1 & exec sleep 100007", signal)
		r := s.run(b, sandbox.Command{Args: []string{"sh", "-c", line}})
		if r.ExitCode != 128+signal || r.TimedOut {
			s.Errorf("signal %d: got %d, timed out %v", signal, r.ExitCode, r.TimedOut)
		}
	}
}

func environment(s *suite) {
	b := s.make(sandbox.Spec{
		Workspace: sdk.Workspace{Env: []string{"FROM=workspace", "W=1", "EMPTY=", "ODD=a=b c"}},
		Env:       []string{"FROM=spec", "S=1"},
	})
	r := s.run(b, sandbox.Command{Shell: `echo "$FROM $W $S $C [$EMPTY] $ODD"; env | grep -c ^FROM=`, Env: []string{"FROM=command", "C=1"}})
	if want := "command 1 1 1 [] a=b c\n1\n"; string(r.Output) != want {
		s.Errorf("got %q, want %q", r.Output, want)
	}
	if out := s.shell(b, "echo $FROM"); out != "spec\n" {
		s.Errorf("a command's variables stayed: %q", out)
	}
	if out := s.shell(b, `echo "$LANG $TZ $PYTHONHASHSEED $PYTHONDONTWRITEBYTECODE"; cd && touch home && test -w "${TMPDIR:-/tmp}" && date +%Z`); out != "C.UTF-8 UTC 0 1\nUTC\n" {
		s.Errorf("got %q", out)
	}
}

func output(s *suite) {
	const most = 10_000
	b := s.make(sandbox.Spec{Limits: sandbox.Limits{Output: most}})
	r := s.run(b, sandbox.Command{Shell: "yes | head -c 50000000"})
	if r.Bytes != 50_000_000 || !r.Truncated || !bytes.Equal(r.Output, bytes.Repeat([]byte("y\n"), most/2)) {
		s.Errorf("kept %d of %d bytes, truncated %v", len(r.Output), r.Bytes, r.Truncated)
	}
	r = s.run(b, sandbox.Command{Shell: "head -c 10000 /dev/zero"})
	if r.Bytes != most || r.Truncated || len(r.Output) != most {
		s.Errorf("exactly the limit: kept %d of %d bytes, truncated %v", len(r.Output), r.Bytes, r.Truncated)
	}
	all := make([]byte, 4096)
	for i := range all {
		all[i] = byte(i)
	}
	if r := s.run(b, sandbox.Command{Shell: "cat", Stdin: all}); !bytes.Equal(r.Output, all) {
		s.Errorf("bytes were changed on their way through stdin and stdout")
	}
	// Output of a process that ends right after it must not be lost.
	for range 200 {
		if r := s.run(b, sandbox.Command{Args: []string{"/bin/echo", "x"}}); string(r.Output) != "x\n" {
			s.Fatalf("got %q", r.Output)
		}
	}
}

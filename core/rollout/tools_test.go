package rollout

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

func TestMain(m *testing.M) {
	if local.Init() {
		return
	}
	os.Exit(m.Run())
}

var workspace = sdk.Workspace{Files: []sdk.File{
	{Path: "a.txt", Data: []byte("one\ntwo\nthree\n")},
	{Path: "open.txt", Data: []byte("one\ntwo")}, // no line break at the end
	{Path: "empty.txt"},
	{Path: "twice.txt", Data: []byte("x x\n")},
	{Path: "bytes.bin", Data: []byte("a\x00b")},
	{Path: "latin.txt", Data: []byte("caf\xe9\n")},
	{Path: "d/in.txt", Data: []byte("in\n")},
}}

func open(t *testing.T, limits sandbox.Limits) sandbox.Sandbox {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir(), Defaults: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	b, err := d.Create(t.Context(), sandbox.Spec{Name: t.Name(), Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// edits is a call of str_replace: command, path, and then name and value in turn.
func edits(command, path string, arguments ...string) *policy.Call {
	a := map[string]string{"command": command, "path": path}
	for i := 0; i < len(arguments); i += 2 {
		a[arguments[i]] = arguments[i+1]
	}
	return &policy.Call{Tool: policy.ToolStrReplace, Arguments: a}
}

func shell(command string) *policy.Call {
	return &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": command}}
}

func TestTools(t *testing.T) {
	b := open(t, sandbox.Limits{Command: time.Minute, Create: time.Minute})
	for _, c := range []struct {
		name string
		call *policy.Call
		want string // the answer; one that ends in … is a prefix
		path string // a file that must then hold
		text string
	}{
		{name: "view", call: edits("view", "a.txt"), want: "one\ntwo\nthree"},
		{name: "view by its whole path", call: edits("view", "/workspace/a.txt"), want: "one\ntwo\nthree"},
		{name: "view with blanks around the path", call: edits("view", " a.txt\n"), want: "one\ntwo\nthree"},
		{name: "view nothing", call: edits("view", "none.txt"), want: "Error: no file none.txt"},
		{name: "view below a file", call: edits("view", "a.txt/x"), want: "Error: …"},
		{name: "view a folder", call: edits("view", "d"), want: "in.txt"},
		{name: "view a folder with an odd name", call: edits("view", "-l"), want: "Error: no file -l"},
		{name: "view an empty file", call: edits("view", "empty.txt"), want: ""},
		{name: "view bytes", call: edits("view", "bytes.bin"), want: "Error: bytes.bin is not text"},
		{name: "view another encoding", call: edits("view", "latin.txt"), want: "caf�"},
		{name: "view a device", call: edits("view", "/dev/zero"), want: "Error: …"},
		{name: "no path", call: edits("view", " "), want: "Error: no path"},
		{name: "no command", call: edits("", "a.txt"), want: `Error: no command ""`},
		{name: "unknown command", call: edits("undo", "a.txt"), want: `Error: no command "undo"`},
		{name: "unknown tool", call: &policy.Call{Tool: "python"}, want: `Error: no tool "python"; there are bash and str_replace`},

		{name: "create", call: edits("create", "new/n.txt", "file_text", "hello"), want: "ok", path: "new/n.txt", text: "hello\n"},
		{name: "create empty", call: edits("create", "new/e.txt", "file_text", ""), want: "ok", path: "new/e.txt"},
		{name: "create again", call: edits("create", "new/n.txt", "file_text", "other\n"), want: "ok", path: "new/n.txt", text: "other\n"},
		{name: "create over a folder", call: edits("create", "d", "file_text", "x"), want: "Error: …", path: "d/in.txt", text: "in\n"},
		{name: "create below a file", call: edits("create", "a.txt/x", "file_text", "x"), want: "Error: …", path: "a.txt", text: "one\ntwo\nthree\n"},
		{name: "create outside", call: edits("create", "/tmp/out.txt", "file_text", "x"), want: "ok", path: "/tmp/out.txt", text: "x\n"},
		{name: "create where nobody may write", call: edits("create", "/proc/x", "file_text", "x"), want: "Error: …"},

		{name: "replace", call: edits("replace", "a.txt", "old_str", "two", "new_str", "zwei"), want: "ok", path: "a.txt", text: "one\nzwei\nthree\n"},
		{name: "replace over lines", call: edits("replace", "a.txt", "old_str", "one\nzwei\n", "new_str", ""), want: "ok", path: "a.txt", text: "three\n"},
		{name: "replace what is not there", call: edits("replace", "a.txt", "old_str", "nine", "new_str", "x"), want: "Error: old_str not found", path: "a.txt", text: "three\n"},
		{name: "replace what is there twice", call: edits("replace", "twice.txt", "old_str", "x", "new_str", "y"), want: "Error: old_str found 2 times", path: "twice.txt", text: "x x\n"},
		{name: "replace nothing", call: edits("replace", "a.txt", "old_str", "", "new_str", "y"), want: "Error: old_str is empty", path: "a.txt", text: "three\n"},
		{name: "replace in no file", call: edits("replace", "none.txt", "old_str", "a", "new_str", "y"), want: "Error: no file none.txt"},
		{name: "replace in a folder", call: edits("replace", "d", "old_str", "a", "new_str", "y"), want: "Error: …"},
		{name: "replace among bytes", call: edits("replace", "latin.txt", "old_str", "caf", "new_str", "Caf"), want: "ok", path: "latin.txt", text: "Caf\xe9\n"},

		{name: "insert at the top", call: edits("insert", "a.txt", "insert_line", "0", "new_str", "zero"), want: "ok", path: "a.txt", text: "zero\nthree\n"},
		{name: "insert at the end", call: edits("insert", "a.txt", "insert_line", "2", "new_str", "four\n"), want: "ok", path: "a.txt", text: "zero\nthree\nfour\n"},
		{name: "insert between", call: edits("insert", "a.txt", "insert_line", " 1 ", "new_str", "a\nb"), want: "ok", path: "a.txt", text: "zero\na\nb\nthree\nfour\n"},
		{name: "insert after a line without a break", call: edits("insert", "open.txt", "insert_line", "2", "new_str", "x"), want: "ok", path: "open.txt", text: "one\ntwo\nx\n"},
		{name: "insert into nothing", call: edits("insert", "empty.txt", "insert_line", "0", "new_str", "x"), want: "ok", path: "empty.txt", text: "x\n"},
		{name: "insert no text", call: edits("insert", "empty.txt", "insert_line", "1", "new_str", ""), want: "ok", path: "empty.txt", text: "x\n"},
		{name: "insert too far", call: edits("insert", "a.txt", "insert_line", "6", "new_str", "x"), want: "Error: insert_line must be 0 to 5"},
		{name: "insert before the top", call: edits("insert", "a.txt", "insert_line", "-1", "new_str", "x"), want: "Error: insert_line must be 0 to 5"},
		{name: "insert nowhere", call: edits("insert", "a.txt", "new_str", "x"), want: "Error: insert_line must be 0 to 5"},
		{name: "insert in no file", call: edits("insert", "none.txt", "insert_line", "0", "new_str", "x"), want: "Error: no file none.txt"},

		{name: "bash", call: shell("pwd; cat d/in.txt"), want: "/workspace\nin"},
		{name: "bash is silent", call: shell("true"), want: "[no output]"},
		{name: "bash fails", call: shell("echo out; echo err >&2; exit 3"), want: "out\nerr\n[exit 3]"},
		{name: "bash fails silently", call: shell("exit 3"), want: "[exit 3]"},
		{name: "bash is killed", call: shell("kill -9 $$"), want: "[exit 137]"},
		{name: "bash says nonsense", call: shell(`printf 'a\377b'`), want: "a�b"},
		{name: "bash of nothing", call: shell(" \n"), want: "Error: empty command"},
		{name: "bash without a command", call: &policy.Call{Tool: policy.ToolBash}, want: "Error: empty command"},
	} {
		tl := &tools{box: b, used: map[string]int{}}
		got, err := tl.call(t.Context(), c.call)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if prefix, open := strings.CutSuffix(c.want, "…"); got != c.want && !(open && strings.HasPrefix(got, prefix)) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if c.path == "" {
			continue
		}
		if text, err := b.Read(t.Context(), c.path, 0); err != nil || string(text) != c.text {
			t.Errorf("%s: %s holds %q, want %q: %v", c.name, c.path, text, c.text, err)
		}
	}
}

func TestToolOptions(t *testing.T) {
	b := open(t, sandbox.Limits{Command: time.Minute, Create: time.Minute})
	tl := &tools{box: b, used: map[string]int{}, opts: Options{ObservationLimit: 20, LineNumbers: true}}
	for _, c := range []struct {
		call *policy.Call
		want string
	}{
		{edits("view", "open.txt"), "     1\tone\n[…]\n     2\ttwo"},
		{shell("seq 100"), "1\n2\n3\n4\n5\n\n[…]\n\n98\n99\n100"},
		{shell("seq 100; exit 1"), "1\n2\n3\n4\n5\n\n[…]\n\n98\n99\n100\n[exit 1]"},
		{shell("python3 -c 'print(1)'"), "1"},
	} {
		if got, err := tl.call(t.Context(), c.call); err != nil || strings.TrimRight(got, "\n") != c.want {
			t.Errorf("got %q, want %q, %v", got, c.want, err)
		}
	}
	if d := cmp.Diff(map[string]int{"bash": 3, "view": 1}, tl.used); d != "" || tl.runs != 1 {
		t.Errorf("counted %v, %d test runs", tl.used, tl.runs)
	}
}

func TestCommandDeadline(t *testing.T) {
	b := open(t, sandbox.Limits{Command: 200 * time.Millisecond, Create: time.Minute})
	tl := &tools{box: b, used: map[string]int{}}
	got, err := tl.call(t.Context(), shell("echo first; sleep 1000"))
	if err != nil || !strings.HasPrefix(got, "first\n[timed out after ") {
		t.Errorf("got %q, %v", got, err)
	}
}

// failing is a sandbox whose calls fail with an error of the test's.
type failing struct {
	sandbox.Sandbox
	err error
}

func (b failing) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	return sandbox.Result{}, b.err
}
func (b failing) Read(context.Context, string, int64) ([]byte, error) { return nil, b.err }
func (b failing) Write(context.Context, ...sdk.Change) error          { return b.err }
func (b failing) Diff(context.Context, int64) ([]sdk.Change, error)   { return nil, b.err }

// A sandbox that fails is an error whatever its cause looks like: the policy did
// not do it and must not read of it.
func TestSandboxFailureIsNoAnswer(t *testing.T) {
	for _, err := range []error{
		diag.Errorf(diag.KindSandbox, "sandbox", "x", "it is gone"),
		diag.Errorf(diag.KindSandbox, "sandbox", "x", "%w", syscall.EPIPE),
		diag.Errorf(diag.KindSandbox, "sandbox", "x", "%w", os.ErrNotExist),
		context.Canceled,
	} {
		tl := &tools{box: failing{err: err}, used: map[string]int{}}
		for _, call := range []*policy.Call{shell("x"), edits("view", "a"), edits("create", "a"), edits("replace", "a", "old_str", "b"), edits("insert", "a")} {
			if got, e := tl.call(t.Context(), call); !errors.Is(e, err) {
				t.Errorf("%v on %v: %q, %v", call.Arguments, err, got, e)
			}
		}
		if _, e := Collect(t.Context(), failing{err: err}, nil); !errors.Is(e, err) {
			t.Errorf("collect on %v: %v", err, e)
		}
	}
}

func TestCollect(t *testing.T) {
	b := open(t, sandbox.Limits{Command: time.Minute, Create: time.Minute})
	r, err := b.Exec(t.Context(), sandbox.Command{Shell: `
		echo new > a.txt; echo x > d/new.txt; rm twice.txt; ln -s a.txt link; mkdir -p p/__pycache__ .pytest_cache
		echo x > p/__pycache__/m.pyc; echo x > .pytest_cache/v; echo x > m.pyc; echo x > p/kept.py`})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s, %v", r.Output, err)
	}
	for _, c := range []struct {
		globs   []string
		changes []string
		outside []string
	}{
		{nil, []string{"a.txt", "d/new.txt", "link", "p/kept.py", "twice.txt"}, nil},
		{[]string{"a.txt", "d/**"}, []string{"a.txt", "d/new.txt"}, []string{"link", "p/kept.py", "twice.txt"}},
		{[]string{"*.txt"}, []string{"a.txt", "twice.txt"}, []string{"d/new.txt", "link", "p/kept.py"}},
		{[]string{"/"}, nil, []string{"a.txt", "d/new.txt", "link", "p/kept.py", "twice.txt"}},
	} {
		out, err := Collect(t.Context(), b, c.globs)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, x := range out.Changes {
			paths = append(paths, x.Path)
		}
		if d := cmp.Diff(c.changes, paths); d != "" {
			t.Errorf("%v: changes (-want +got):\n%s", c.globs, d)
		}
		if d := cmp.Diff(c.outside, out.Outside); d != "" {
			t.Errorf("%v: outside (-want +got):\n%s", c.globs, d)
		}
	}
	// What no plugin can be told the name of is outside, and version control is nothing.
	r, err = b.Exec(t.Context(), sandbox.Command{Shell: `printf x > "$(printf 'a\351.txt')"; ln -s "$(printf 'a\351')" bytes; mkdir -p .git d/.git; echo x > .git/config; echo x > d/.git/HEAD`})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s, %v", r.Output, err)
	}
	out, err := Collect(t.Context(), b, []string{"*"})
	if err != nil || len(out.Changes) != 3 || !slices.Equal(out.Outside, []string{"a�.txt", "bytes", "d/new.txt", "p/kept.py"}) {
		t.Errorf("%d changes, outside %q, %v", len(out.Changes), out.Outside, err)
	}
	out, err = Collect(t.Context(), failing{err: sandbox.ErrTooLarge}, []string{"a.txt"})
	if err != nil || len(out.Changes) != 0 || len(out.Outside) != 1 {
		t.Errorf("too large: %+v, %v", out, err)
	}
}

func TestRun(t *testing.T) {
	task := &sdk.Task{Key: "a/1", Prompt: "go", Workspace: workspace, Collect: []string{"a.txt"}}
	var heard []string
	listening := policy.NewExpert("listening", func(*sdk.Task, uint64) (policy.Script, error) {
		turns := []policy.Turn{{Call: shell("echo seen; python3 -c 1")}, {Malformed: "no such tool"}, {Call: edits("create", "a.txt", "file_text", "done")}, {Text: "ready"}}
		return func(observation string) (policy.Turn, error) {
			heard = append(heard, observation)
			return turns[len(heard)-1], nil
		}, nil
	})
	b := open(t, sandbox.Limits{Command: time.Minute, Create: time.Minute})
	tr, err := Run(t.Context(), b, listening, policy.Opening{ID: "e", Task: task}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"", "seen", "Error: no such tool", "ok"}, heard); d != "" {
		t.Errorf("heard (-want +got):\n%s", d)
	}
	want := sdk.Output{Changes: []sdk.Change{{Path: "a.txt", Data: []byte("done\n")}}, Message: "ready", End: "submitted"}
	if d := cmp.Diff(want, tr.Output); d != "" || tr.End != Submitted || tr.TestRuns != 1 || !maps.Equal(tr.Tools, map[string]int{"bash": 1, "create": 1}) {
		t.Errorf("%s, %d test runs, tools %v (-want +got):\n%s", tr.End, tr.TestRuns, tr.Tools, d)
	}
	// What it did so far comes with a failure.
	failing := policy.NewScripted("short", func(*sdk.Task, uint64) []policy.Turn { return []policy.Turn{{Call: shell("true")}} })
	tr, err = Run(t.Context(), b, failing, policy.Opening{ID: "f", Task: task}, Options{})
	if diag.KindOf(err) != diag.KindPolicy || len(tr.Turns) != 1 || tr.End != Failed || tr.Output.Changes != nil {
		t.Errorf("%+v, %v", tr, err)
	}
	// A caller who stops is no deadline.
	ctx, cancel := context.WithCancel(t.Context())
	stopping := policy.NewExpert("stopping", func(*sdk.Task, uint64) (policy.Script, error) {
		return func(string) (policy.Turn, error) { cancel(); return policy.Turn{Call: shell("sleep 1000")}, nil }, nil
	})
	if tr, err = Run(ctx, b, stopping, policy.Opening{ID: "g", Task: task}, Options{}); !errors.Is(err, context.Canceled) || tr.End != Failed {
		t.Errorf("%s, %v", tr.End, err)
	}
	b.Close()
	if _, err = Run(t.Context(), b, policy.Noop(), policy.Opening{ID: "h", Task: task}, Options{}); diag.KindOf(err) != diag.KindSandbox {
		t.Errorf("a sandbox that is closed: %v", err)
	}
}

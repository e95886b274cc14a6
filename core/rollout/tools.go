package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/sdk"
)

// ToolDefinitions describes the two tools in the field's function-calling schema.
func ToolDefinitions() []map[string]any {
	text := func(d string) map[string]any { return map[string]any{"type": "string", "description": d} }
	tool := func(name, description string, properties map[string]any, required ...string) map[string]any {
		return map[string]any{"type": "function", "function": map[string]any{
			"name": name, "description": description,
			"parameters": map[string]any{"type": "object", "properties": properties, "required": required},
		}}
	}
	return []map[string]any{
		tool(policy.ToolBash, "Run a command line in the workspace and see what it prints.",
			map[string]any{"command": text("the command line")}, "command"),
		tool(policy.ToolStrReplace, "Look at a file, make one, or change one.",
			map[string]any{
				"command":     map[string]any{"type": "string", "enum": []string{"view", "create", "replace", "insert"}},
				"path":        text("the file, relative to the workspace or absolute"),
				"file_text":   text("create: the whole content"),
				"old_str":     text("replace: the text to find; it must occur exactly once"),
				"new_str":     text("replace, insert: the new text"),
				"insert_line": map[string]any{"type": "integer", "description": "insert: after this line; 0 is the top"},
			}, "command", "path"),
	}
}

// tools runs calls in one sandbox. What goes wrong because of the policy is an
// answer it can read; an error means that the sandbox failed.
type tools struct {
	box  sandbox.Sandbox
	opts Options
	used map[string]int
	runs int // bash calls that ran tests or scripts
}

func (t *tools) call(ctx context.Context, c *policy.Call) (string, error) {
	switch c.Tool {
	case policy.ToolBash:
		t.used["bash"]++
		return t.bash(ctx, c.Arguments["command"])
	case policy.ToolStrReplace:
		command := c.Arguments["command"]
		path := strings.TrimSpace(c.Arguments["path"])
		if path == "" {
			return "Error: no path", nil
		}
		t.used[command]++
		var out string
		var err error
		switch command {
		case "view":
			out, err = t.view(ctx, path)
		case "create":
			out, err = t.write(ctx, path, c.Arguments["file_text"])
		case "replace":
			out, err = t.replace(ctx, path, c.Arguments["old_str"], c.Arguments["new_str"])
		case "insert":
			out, err = t.insert(ctx, path, c.Arguments["insert_line"], c.Arguments["new_str"])
		default:
			return fmt.Sprintf("Error: no command %q", command), nil
		}
		return out, err
	}
	return fmt.Sprintf("Error: no tool %q; there are bash and str_replace", c.Tool), nil
}

func (t *tools) bash(ctx context.Context, command string) (string, error) {
	if strings.TrimSpace(command) == "" {
		return "Error: empty command", nil
	}
	if strings.Contains(command, "python") || strings.Contains(command, "test") {
		t.runs++
	}
	r, err := t.box.Exec(ctx, sandbox.Command{Shell: command})
	if err != nil {
		return "", err
	}
	out := strings.TrimRight(string(bytes.ToValidUTF8(r.Output, []byte("�"))), "\n")
	out = clip(out, t.opts.ObservationLimit)
	switch {
	case r.TimedOut:
		out = join(out, fmt.Sprintf("[timed out after %s]", r.Took.Round(1e8)))
	case r.ExitCode != 0:
		out = join(out, fmt.Sprintf("[exit %d]", r.ExitCode))
	case out == "":
		out = "[no output]"
	}
	return out, nil
}

func (t *tools) view(ctx context.Context, path string) (string, error) {
	b, err := t.box.Read(ctx, path, 0)
	if errors.Is(err, syscall.EISDIR) {
		r, err := t.box.Exec(ctx, sandbox.Command{Args: []string{"ls", "-1Ap", "--", path}})
		if err != nil {
			return "", err
		}
		return clip(strings.TrimRight(string(r.Output), "\n"), t.opts.ObservationLimit), nil
	}
	if msg, err := explain(err, path); msg != "" || err != nil {
		return msg, err
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return "Error: " + path + " is not text", nil
	}
	text := strings.TrimRight(string(bytes.ToValidUTF8(b, []byte("�"))), "\n")
	if t.opts.LineNumbers {
		var n strings.Builder
		for i, l := range strings.Split(text, "\n") {
			fmt.Fprintf(&n, "%6d\t%s\n", i+1, l)
		}
		text = strings.TrimRight(n.String(), "\n")
	}
	return clip(text, t.opts.ObservationLimit), nil
}

func (t *tools) write(ctx context.Context, path, text string) (string, error) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return t.put(ctx, path, text)
}

func (t *tools) put(ctx context.Context, path, text string) (string, error) {
	err := t.box.Write(ctx, sdk.Change{Path: path, Data: []byte(text)})
	if msg, err := explain(err, path); msg != "" || err != nil {
		return msg, err
	}
	return "ok", nil
}

func (t *tools) replace(ctx context.Context, path, old, new string) (string, error) {
	b, err := t.box.Read(ctx, path, 0)
	if msg, err := explain(err, path); msg != "" || err != nil {
		return msg, err
	}
	if old == "" {
		return "Error: old_str is empty", nil
	}
	switch n := strings.Count(string(b), old); n {
	case 1:
		return t.put(ctx, path, strings.Replace(string(b), old, new, 1))
	case 0:
		return "Error: old_str not found", nil
	default:
		return fmt.Sprintf("Error: old_str found %d times", n), nil
	}
}

func (t *tools) insert(ctx context.Context, path, line, text string) (string, error) {
	b, err := t.box.Read(ctx, path, 0)
	if msg, err := explain(err, path); msg != "" || err != nil {
		return msg, err
	}
	lines := strings.SplitAfter(string(b), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || n < 0 || n > len(lines) {
		return fmt.Sprintf("Error: insert_line must be 0 to %d", len(lines)), nil
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	head := strings.Join(lines[:n], "")
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return t.put(ctx, path, head+text+strings.Join(lines[n:], ""))
}

// explain turns an error about a path, which the policy caused, into an answer
// and hands every other error on.
func explain(err error, path string) (string, error) {
	var no syscall.Errno
	switch {
	case err == nil:
		return "", nil
	case diag.KindOf(err) != diag.KindUnknown: // a sandbox that fails may name a system call too
		return "", err
	case errors.Is(err, fs.ErrNotExist):
		return "Error: no file " + path, nil
	case errors.Is(err, sandbox.ErrTooLarge):
		return "Error: " + path + " is too large", nil
	case errors.As(err, &no):
		return "Error: " + path + ": " + no.Error(), nil
	}
	return "", err
}

// clip keeps the head and the tail of a long text.
func clip(s string, limit int) string {
	if limit <= 0 || len(s) <= limit {
		return s
	}
	head, tail := limit/2, limit-limit/2
	return strings.ToValidUTF8(s[:head], "") + "\n[…]\n" + strings.ToValidUTF8(s[len(s)-tail:], "")
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n" + b
}

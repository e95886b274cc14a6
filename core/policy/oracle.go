package policy

import (
	"encoding/base64"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/sdk"
)

// Oracle is the policy that leaves what the task's Reference says and submits its
// message, through the same tools as any other policy: the ceiling of every
// evaluation, and the check that tasks can be solved. A task without a Reference is
// an error of diag.KindPolicy at Open.
//
// Removals come first, so that a path can turn from a file into a folder; then each
// change in the order of the Reference: a file is one create of str_replace (through
// bash when its bytes are no valid UTF-8) and, if executable, one chmod; a symbolic
// link is one ln. The tool must run bash commands in the workspace's folder, and
// its create must replace a file that is there. A text that does not end with a line
// break is created all the same, and has one if the tool's create adds it.
func Oracle() *Scripted {
	return NewExpert("oracle", func(task *sdk.Task, _ uint64) (Script, error) {
		if task.Reference == nil {
			return nil, errors.New("the task has no reference answer")
		}
		return play(enact(task.Reference)), nil
	})
}

// enact turns a reference into turns.
func enact(r *sdk.Reference) []Turn {
	var turns []Turn
	for _, c := range r.Changes {
		if c.Deleted {
			turns = append(turns, bashTurn("rm -rf -- "+quote(c.Path)))
		}
	}
	for _, c := range r.Changes {
		switch {
		case c.Deleted:
		case c.Symlink != "":
			turns = append(turns, bashTurn(inFolder(c.Path)+"ln -sfn -- "+quote(c.Symlink)+" "+quote(c.Path)))
		case !utf8.Valid(c.Data):
			turns = append(turns, writeBytes(c.Path, c.Data)...)
		default:
			turns = append(turns, Turn{Call: &Call{Tool: ToolStrReplace, Arguments: map[string]string{
				"command": "create", "path": c.Path, "file_text": string(c.Data),
			}}})
		}
		if c.Exec && !c.Deleted && c.Symlink == "" {
			turns = append(turns, bashTurn("chmod +x -- "+quote(c.Path)))
		}
	}
	return append(turns, Turn{Text: r.Message})
}

// writeBytes writes any bytes through bash, in commands that Linux takes as one
// argument (128 KiB).
func writeBytes(p string, data []byte) []Turn {
	const most = 64 << 10
	var turns []Turn
	start, to := inFolder(p), " > "
	for chunk := range slices.Chunk(data, most) {
		turns = append(turns, bashTurn(start+"printf %s "+base64.StdEncoding.EncodeToString(chunk)+" | base64 -d"+to+quote(p)))
		start, to = "", " >> "
	}
	return turns
}

func bashTurn(command string) Turn {
	return Turn{Call: &Call{Tool: ToolBash, Arguments: map[string]string{"command": command}}}
}

// inFolder is the start of a command that writes p: it makes p's folder.
func inFolder(p string) string {
	if dir := path.Dir(p); dir != "." && dir != "/" {
		return "mkdir -p -- " + quote(dir) + " && "
	}
	return ""
}

// quote makes one word of s for the shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

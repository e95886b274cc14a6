package swebench

import (
	"errors"
	"strconv"
	"strings"
)

// The exit statuses of an [ApplyScript].
const (
	PatchApplied = 0
	PatchRefused = 1  // the patch does not apply, in any of the four ways
	PatchUndone  = 75 // the host's: no room, no temporary folder
	PatchUntried = 69 // the image's: it has neither git nor patch
)

// ApplyScript gives a shell script (POSIX, with mktemp and head) that applies a
// prediction to the working directory as the harness does: `git apply`, with
// `--3way`, with `--reject`, then `patch --fuzz=5`, with the tree set back between
// the tries. It ends with one of the statuses above, and prints the harness's
// ">>>>> Applied Patch" or ">>>>> Patch Apply Failed".
//
// Where the directory has no .git, as in a sandbox, the script makes a repository of
// the tree in a temporary folder, which leaves no trace. What differs then from a
// repository with its history is said in docs/grading.md.
//
// The error is that of a patch with a NUL byte, which no script can hold.
func ApplyScript(patch string) (string, error) {
	if strings.IndexByte(patch, 0) >= 0 {
		return "", errors.New("apply: patch: it has a NUL byte")
	}
	end := "END_OF_PATCH"
	for strings.Contains(patch, end) {
		end += "_"
	}
	var b strings.Builder
	b.WriteString("set -u\nt=$(mktemp -d) || exit 75\ntrap 'rm -rf \"$t\"' EXIT\n")
	// A here-document ends in a newline, which a patch need not have.
	b.WriteString("head -c " + strconv.Itoa(len(patch)) + " >\"$t/patch.diff\" <<'" + end + "' || exit 75\n")
	b.WriteString(patch + "\n" + end + "\n")
	b.WriteString(applySteps)
	return b.String(), nil
}

const applySteps = `applied() { echo ">>>>> Applied Patch ($1)"; exit 0; }
reset() { git checkout -q -- . ; git clean -fdq; }
git=$(command -v git) || git=
patch=$(command -v patch) || patch=
[ -n "$git$patch" ] || { echo "neither git nor patch is installed"; exit 69; }
if [ -n "$git" ]; then
	own=
	if [ ! -e .git ]; then
		own=1
		export GIT_DIR="$t/git" GIT_WORK_TREE="$PWD" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
		git init -q || exit 75
	fi
	git apply --verbose "$t/patch.diff" && applied "git apply"
	if [ -n "$own" ]; then
		git add -A -f . 2>"$t/log" || { cat "$t/log"; exit 75; }
	fi
	reset
	git apply --verbose --3way "$t/patch.diff" && applied "git apply --3way"
	reset
	git apply --verbose --reject "$t/patch.diff" && applied "git apply --reject"
	reset
fi
if [ -n "$patch" ]; then
	patch --batch --forward --fuzz=5 -p1 -i "$t/patch.diff" && applied "patch --fuzz=5"
fi
if [ -n "$git" ]; then
	git apply --check --reverse "$t/patch.diff" && applied "it was there already"
fi
echo ">>>>> Patch Apply Failed"
exit 1
`

// EvalScript makes a row's eval_script note the exit status of its tests behind
// their output, for [Read], as the harness does before it runs the script. A script
// without markers stays as it is, and so does one that notes the status already.
func EvalScript(script string) string {
	if strings.Contains(script, exitCode) {
		return script
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash\nset -uxo pipefail\n")
	noted := false
	for line := range strings.SplitSeq(strings.TrimFunc(script, space), "\n") {
		switch {
		case line == "#!/bin/bash" || line == "set -uxo pipefail":
		case !noted && strings.Contains(line, EndMarker):
			noted = true
			b.WriteString("SWEBENCH_TEST_EXIT_CODE=$?\n" + line + "\necho \"" + exitCode + ": $SWEBENCH_TEST_EXIT_CODE\"\n")
		default:
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

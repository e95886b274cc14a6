package formats

import (
	"strings"
	"sync"

	"github.com/valence-rl/valence/core/data/suites"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/swebench"
)

// testbed is the working folder of the images of SWE-bench and of those made like them.
const testbed = "/testbed"

// common reads what the rows of SWE-bench and SWE-Gym share.
func common(r *row) *sdk.Record {
	rec := &sdk.Record{
		ID: r.need("instance_id"), Repo: r.need("repo"), BaseCommit: r.need("base_commit"),
		Problem: r.text("problem_statement"), Patch: r.need("patch"), TestPatch: r.text("test_patch"),
		FailToPass: r.list("FAIL_TO_PASS"), PassToPass: r.list("PASS_TO_PASS"), LogParser: r.text("log_parser"),
	}
	rec.Workspace.Dir = testbed
	rec.Language = language(r.diffs.of(rec.Patch))
	rec.TestFiles = changed(r.diffs.of(rec.TestPatch))
	return rec
}

// sweBench reads a row of SWE-bench. Rows of the releases before version 5 name no
// image; the official one of an official instance follows from its ID. The tests'
// command is the official script without what needs version control: the test patch is
// applied by whoever runs it.
func sweBench(r *row) *sdk.Record {
	rec := common(r)
	rec.Source = "swebench"
	if rec.Workspace.Image = r.text("image"); rec.Workspace.Image == "" && official(rec.Repo) {
		rec.Workspace.Image = "swebench/sweb.eval.x86_64." + strings.ToLower(strings.ReplaceAll(rec.ID, "__", "_1776_")) + ":latest"
	}
	rec.TestCommand = testCommand(r.text("eval_script"))
	rec.Meta = r.keep("eval_script")
	return rec
}

// official says whether a repository is one of SWE-bench or SWE-bench Multilingual.
func official(repo string) bool { return officials()[strings.ToLower(repo)] }

var officials = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, name := range []string{"swebench", "swebench-dev", "swebench-multilingual"} {
		s, _ := suites.Named(name)
		for _, r := range s.Repositories {
			out[r] = true
		}
	}
	return out
})

// testCommand takes from an official eval script what sets the shell up, builds, and
// runs the tests between their markers. Left out are git's commands with the patch that
// one of them is given, what takes test files away before it, and all that follows the
// tests. As the harness does, it notes the status of the tests behind them, without which
// a log that was cut short or forged would count. It gives "" for a script without the
// markers.
func testCommand(script string) string {
	if !strings.Contains(script, ">>>>> Start Test Output") {
		return ""
	}
	var out []string
	lines := strings.Split(script, "\n")
	started := false
	for i := 0; i < len(lines); i++ {
		l := strings.TrimSpace(lines[i])
		if !started && strings.HasPrefix(l, "git ") {
			if _, end, ok := strings.Cut(l, "<<"); ok {
				end = strings.Trim(strings.TrimPrefix(end, "-"), ` '"`)
				for i++; i < len(lines) && lines[i] != end; i++ {
				}
			}
			continue
		}
		if !started && strings.HasPrefix(l, "rm -f ") && i+1 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "git ") {
			continue
		}
		out = append(out, lines[i])
		started = started || strings.Contains(l, ">>>>> Start Test Output")
		if strings.Contains(l, ">>>>> End Test Output") {
			break
		}
	}
	return swebench.EvalScript(strings.Join(out, "\n") + "\n")
}

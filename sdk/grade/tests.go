package grade

import (
	"context"
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

// Report is how the tests of a record went.
type Report struct {
	Solved         bool    // every test of FailToPass and PassToPass passed
	FailToPass     float64 // share that passed; 1 if there are none
	PassToPass     float64
	Reason         string
	FirstNotPassed string // id; "" when solved
}

// RunTests makes r's workspace with the hidden tests and the agent's changes in
// one fresh sandbox and runs the tests. A test that the log does not name has not
// passed. seed and key decide the nonce of an honest run (see [UnittestRun]),
// which is made whenever r's command allows it; millis is the command's limit.
//
// An error is a failure of the host, or of a test command that cannot be started
// even without the changes.
func RunTests(ctx context.Context, h sdk.Host, r *sdk.Record, changes []sdk.Change, seed uint64, key string, millis int64) (*Report, error) {
	request := &sdk.RunRequest{Workspace: r.Workspace, Changes: changes}
	if r.TestPatch != "" {
		request.Patches = []string{r.TestPatch}
	}
	var honest *UnittestRun
	command := sdk.Command{Shell: r.TestCommand, Millis: millis}
	if python, ok := Interpreter(r); ok {
		honest = NewUnittestRun(r, python, seed, key, millis)
		command = honest.Command
	}
	request.Commands = []sdk.Command{command}
	log, err := Run1(ctx, h, request)
	if err != nil {
		return nil, err
	}
	if honest == nil {
		results, ok := ParseLog(r.LogParser, log.Output)
		if !ok {
			return nil, fmt.Errorf("run tests: %s: unknown log format %q", key, r.LogParser)
		}
		rep := report(r, results)
		if log.TimedOut && !rep.Solved {
			rep.Reason = "the tests did not end within the time limit; " + rep.Reason
		}
		return rep, nil
	}
	results, err := honest.Read(log)
	if err != nil {
		rep := report(r, Results{})
		rep.Solved, rep.Reason = false, err.Error()
		return rep, nil
	}
	rep := report(r, results)
	if tail := strings.TrimSpace(honest.Tail(log)); !rep.Solved && tail != "" {
		rep.Reason += "\n" + tail
	}
	return rep, nil
}

func report(r *sdk.Record, results Results) *Report {
	rep := &Report{Solved: true}
	rep.FailToPass = rep.share(r.FailToPass, results)
	rep.PassToPass = rep.share(r.PassToPass, results)
	if rep.Solved {
		rep.Reason = fmt.Sprintf("all %d tests passed", len(r.FailToPass)+len(r.PassToPass))
	}
	return rep
}

func (rep *Report) share(ids []string, results Results) float64 {
	if len(ids) == 0 {
		return 1
	}
	passed := 0
	for _, id := range ids {
		status, ok := results[TestID(id)]
		if !ok {
			status, ok = results[id]
		}
		switch {
		case status == Passed:
			passed++
			continue
		case !ok:
			status = "not run"
		}
		if rep.Solved {
			rep.Solved = false
			rep.FirstNotPassed = id
			rep.Reason = fmt.Sprintf("%s: %s", id, status)
		}
	}
	return float64(passed) / float64(len(ids))
}

// Run1 runs a request with one command and gives its log. A command that could
// not be started (exit status 126 or 127) is tried again without the changes: if
// that fails in the same way the sandbox lacks a tool, which is an error.
func Run1(ctx context.Context, h sdk.Host, r *sdk.RunRequest) (*sdk.Log, error) {
	log, err := run(ctx, h, r)
	if err != nil || !unstarted(log) {
		return log, err
	}
	plain := log
	if len(r.Changes) > 0 {
		bare := *r
		bare.Changes = nil
		if plain, err = run(ctx, h, &bare); err != nil {
			return nil, err
		}
	}
	if unstarted(plain) {
		first, _, _ := strings.Cut(strings.TrimSpace(plain.Output), "\n")
		return nil, fmt.Errorf("run command: exit status %d without any change: %s", plain.ExitCode, first)
	}
	return log, nil
}

func unstarted(log *sdk.Log) bool { return log.ExitCode == 126 || log.ExitCode == 127 }

func run(ctx context.Context, h sdk.Host, r *sdk.RunRequest) (*sdk.Log, error) {
	answer, err := h.Run(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(answer.Logs) != len(r.Commands) || len(answer.Logs) == 0 {
		return nil, fmt.Errorf("run command: the host gave %d logs for %d commands", len(answer.Logs), len(r.Commands))
	}
	return &answer.Logs[len(answer.Logs)-1], nil
}

package grade

import (
	"context"
	"fmt"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/swebench"
	"github.com/valence-rl/valence/sdk/testlog"
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
		return readTests(ctx, h, request, r, log, key)
	}
	results, err := honest.Read(log)
	if err != nil {
		rep := report(r, func(string) testlog.Status { return testlog.Missing })
		rep.Solved, rep.Reason = false, err.Error()
		return rep, nil
	}
	rep := report(r, func(id string) testlog.Status { return results[id] })
	if tail := strings.TrimSpace(honest.Tail(log)); !rep.Solved && tail != "" {
		rep.Reason += "\n" + tail
	}
	return rep, nil
}

// Known reports whether the log of r's tests can be read.
func Known(r *sdk.Record) bool { return testlog.Known(swebench.Format(r.LogParser, r.ID)) }

// readTests reads the tests' own words, for runners that have no honest run.
func readTests(ctx context.Context, h sdk.Host, request *sdk.RunRequest, r *sdk.Record, log *sdk.Log, key string) (*Report, error) {
	format := swebench.Format(r.LogParser, r.ID)
	if testlog.Official(format) {
		return readOfficial(ctx, h, request, r, log)
	}
	results, err := testlog.Parse(format, log.Output)
	if err != nil {
		return nil, fmt.Errorf("run tests: %s: %w", key, err)
	}
	rep := report(r, results.Status)
	switch {
	case rep.Solved:
	case log.TimedOut:
		rep.Reason = "the tests did not end within the time limit; " + rep.Reason
	case !results.Ended():
		rep.Reason = "the test runner did not reach its end; " + rep.Reason
	}
	return rep, nil
}

// readOfficial grades by SWE-bench's rules.
func readOfficial(ctx context.Context, h sdk.Host, request *sdk.RunRequest, r *sdk.Record, log *sdk.Log) (*Report, error) {
	s := &swebench.Spec{
		ID: r.ID, LogParser: r.LogParser, EvalType: swebench.EvalTypeOf(r.Repo),
		FailToPass: r.FailToPass, PassToPass: r.PassToPass,
	}
	if !strings.Contains(r.TestCommand, swebench.StartMarker) {
		results, err := testlog.Parse(swebench.Format(r.LogParser, r.ID), log.Output)
		if err != nil {
			return nil, err
		}
		tests, err := swebench.Compare(s, results)
		if err != nil {
			return nil, err
		}
		return officialReport(tests, log), nil
	}
	run, err := swebench.Read(s, log.Output)
	if err != nil {
		return nil, err
	}
	failed := &Report{Reason: run.Outcome.String(), FirstNotPassed: first(r)}
	fault := run.Fault()
	switch {
	case run.Outcome == swebench.Graded:
		return officialReport(&run.Tests, log), nil
	case log.TimedOut:
		failed.Reason = swebench.TimedOut.String()
		return failed, nil
	case fault == swebench.Prediction:
		return failed, nil
	case fault == swebench.Undecided || run.Outcome == swebench.CutShort && log.Truncated:
		// If the tests run without the changes, these are to blame.
		bare := *request
		bare.Changes = nil
		plain, err := Run1(ctx, h, &bare)
		if err != nil {
			return nil, err
		}
		before, err := swebench.Read(s, plain.Output)
		if err != nil {
			return nil, err
		}
		if before.Outcome == swebench.Graded {
			failed.Reason += "; without the changes the tests run"
			return failed, nil
		}
	}
	_, err = run.Score()
	return nil, err
}

func first(r *sdk.Record) string {
	for _, ids := range [][]string{r.FailToPass, r.PassToPass} {
		if len(ids) > 0 {
			return ids[0]
		}
	}
	return ""
}

func officialReport(t *swebench.Tests, log *sdk.Log) *Report {
	rep := &Report{
		Solved:     t.Resolution() == swebench.Full,
		FailToPass: t.FailToPass.Share(),
		PassToPass: t.PassToPass.Share(),
	}
	if rep.Solved {
		rep.Reason = fmt.Sprintf("all %d tests passed", len(t.FailToPass.Success)+len(t.PassToPass.Success))
		return rep
	}
	rep.FirstNotPassed = append(t.FailToPass.Failure, t.PassToPass.Failure...)[0]
	rep.Reason = rep.FirstNotPassed + ": did not pass"
	if log.TimedOut {
		rep.Reason = "the tests did not end within the time limit; " + rep.Reason
	}
	return rep
}

func report(r *sdk.Record, of func(id string) testlog.Status) *Report {
	rep := &Report{Solved: true}
	rep.FailToPass = rep.share(r.FailToPass, of)
	rep.PassToPass = rep.share(r.PassToPass, of)
	if rep.Solved {
		rep.Reason = fmt.Sprintf("all %d tests passed", len(r.FailToPass)+len(r.PassToPass))
	}
	return rep
}

func (rep *Report) share(ids []string, of func(id string) testlog.Status) float64 {
	if len(ids) == 0 {
		return 1
	}
	passed := 0
	for _, id := range ids {
		status := of(testlog.DottedID(id))
		if status == testlog.Missing {
			status = of(id)
		}
		if status.Passes() {
			passed++
			continue
		}
		if rep.Solved {
			rep.Solved = false
			rep.FirstNotPassed = id
			rep.Reason = id + ": " + inWords(status)
		}
	}
	return float64(passed) / float64(len(ids))
}

func inWords(s testlog.Status) string {
	switch s {
	case testlog.Skipped:
		return "skipped"
	case testlog.Missing:
		return "not run"
	}
	return "failed"
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

// Package swebench grades SWE-bench instances as the official harness does, version
// 5.0.2: which part of a log counts, when a log is to be believed, what a test's
// status is worth, what the reports look like, and how a patch is applied.
//
// Where the harness says only "not resolved", [Read] also says why: tests that
// failed, a patch that did not apply, a log that was cut short, an environment that
// broke. A broken environment is an error and never a score ([Run.Score]).
//
// It is part of the guest: standard library only, and little of that.
package swebench

import (
	"slices"
	"strings"
)

// Spec is what a run of an instance is graded by. Its fields are a row's.
type Spec struct {
	ID         string
	LogParser  string   // as "parse_log_django"; see testlog.Names
	EvalType   string   // [PassAndFail] or [FailOnly]; "" is [PassAndFail]
	FailToPass []string // a test that is named twice counts twice
	PassToPass []string
}

// The values of eval_type.
const (
	PassAndFail = "pass_and_fail" // a test must be seen to pass
	FailOnly    = "fail_only"     // the log names failures alone: a test that it does not name has passed
)

// EvalTypeOf gives the eval_type of a repository, "owner/name", for rows that have
// none.
func EvalTypeOf(repo string) string {
	if slices.Contains(failOnly[:], repo) {
		return FailOnly
	}
	return PassAndFail
}

var failOnly = [...]string{
	"chartjs/Chart.js", "processing/p5.js", "markedjs/marked", "bpmn-io/bpmn-js", "openlayers/openlayers", "eslint/eslint",
}

// Format gives the name that testlog has for the log_parser of an instance. Two
// repositories changed their runner, so that theirs goes by the number of the pull
// request; other names stay as they are.
func Format(logParser, id string) string {
	name := "parse_log_" + strings.TrimPrefix(logParser, "parse_log_")
	number := id[strings.LastIndexByte(id, '-')+1:]
	switch {
	case name == "parse_log_jekyll" && slices.Contains([]string{"9141", "8047", "8167"}, number):
		return "parse_log_minitest"
	case name == "parse_log_jekyll" && slices.Contains([]string{"8761", "8771"}, number):
		return "parse_log_cucumber"
	case name == "parse_log_immutable_js" && number == "2006":
		return "parse_log_jest"
	case name == "parse_log_immutable_js" && number == "2005":
		return "parse_log_jest_json"
	}
	return logParser
}

package sdktest

import (
	"fmt"
	"strings"
)

// Status says how a check ended.
type Status string

// The statuses. A check that could not be made is Skipped and never OK.
const (
	OK      Status = "ok"
	Failed  Status = "FAIL"
	Skipped Status = "skip"
)

// Finding is what one check found.
type Finding struct {
	Check  string  `json:"check"` // the check's name, such as "gold"
	Status Status  `json:"status"`
	Passed int     `json:"passed"`           // of Total
	Total  int     `json:"total"`            // cases looked at
	Claim  string  `json:"claim"`            // what holds for each case that passed
	Faults []Fault `json:"faults,omitempty"` // those that did not, the first 20
	Why    string  `json:"why,omitempty"`    // it was skipped
}

// Fault is one case that did not pass.
type Fault struct {
	Task   string `json:"task,omitempty"` // key; "" if it is about no single task
	Reason string `json:"reason"`
}

func (f Fault) String() string {
	if f.Task == "" {
		return f.Reason
	}
	return "task " + f.Task + ": " + f.Reason
}

// String is the finding in one line, without its name and status.
func (f Finding) String() string {
	switch f.Status {
	case Skipped:
		return f.Why
	case Failed:
		s, _, _ := strings.Cut(f.Faults[0].String(), "\n")
		if n := f.Total - f.Passed - 1; n > 0 {
			s += fmt.Sprintf(" (and %d more of %d)", n, f.Total)
		}
		return s
	}
	return fmt.Sprintf("%d/%d %s", f.Passed, f.Total, f.Claim)
}

// keptFaults is how many faults a finding keeps.
const keptFaults = 20

// keptReason is how many bytes of a reason a finding keeps.
const keptReason = 4 << 10

// tally is a finding that is being made.
type tally struct {
	Finding
	cut bool // not all of its cases were looked at
}

func (t *tally) pass() {
	t.Passed++
	t.Total++
}

func (t *tally) fail(task, format string, args ...any) {
	t.Total++
	if len(t.Faults) == keptFaults {
		return
	}
	reason := fmt.Sprintf(format, args...)
	if len(reason) > keptReason {
		reason = strings.ToValidUTF8(reason[:keptReason], "") + "…"
	}
	t.Faults = append(t.Faults, Fault{Task: task, Reason: reason})
}

// close settles the status; stopped says why the examination ended early, if it did.
func (t *tally) close(stopped string) Finding {
	switch {
	case len(t.Faults) > 0:
		t.Status = Failed
	case t.Why != "":
		t.Status = Skipped
	case t.Total == 0 && stopped == "":
		t.Status, t.Why = Skipped, "nothing came back to look at"
	case t.cut, t.Total == 0:
		t.Status, t.Why = Skipped, "not finished: "+stopped
	default:
		t.Status = OK
	}
	return t.Finding
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

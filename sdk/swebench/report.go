package swebench

// Report is the harness's report of one instance, report.json.
type Report struct {
	ID          string
	PatchIsNone bool // there is no prediction
	PatchExists bool
	Applied     bool // that the log could be graded; the harness calls it patch_successfully_applied
	Resolved    bool
	Signature   Signature // its Environment is infra_failure
	Tests       *Tests    // nil: not listed
}

// NewReport makes the report of a run; run is nil where there was no prediction.
func NewReport(s *Spec, run *Run) *Report {
	r := &Report{ID: s.ID, PatchIsNone: run == nil, PatchExists: run != nil}
	switch {
	case run == nil:
	case run.Outcome == Graded:
		r.Applied, r.Resolved, r.Tests = true, run.Resolution == Full, &run.Tests
	default:
		r.Signature = run.Signature
	}
	return r
}

// JSON gives the bytes that the harness writes.
func (r *Report) JSON() []byte {
	var w writer
	w.object(func() {
		w.key(r.ID)
		w.object(func() {
			w.field("patch_is_None", r.PatchIsNone)
			w.field("patch_exists", r.PatchExists)
			w.field("patch_successfully_applied", r.Applied)
			w.field("resolved", r.Resolved)
			w.field("infra_failure", r.Signature.Environment)
			if r.Signature.Reason != "" {
				w.key("infra_failure_reason")
				w.string(r.Signature.Reason)
			}
			if r.Tests != nil {
				w.key("tests_status")
				w.object(func() {
					w.split("FAIL_TO_PASS", &r.Tests.FailToPass)
					w.split("PASS_TO_PASS", &r.Tests.PassToPass)
					w.split("FAIL_TO_FAIL", &Split{}) // the harness leaves them empty
					w.split("PASS_TO_FAIL", &Split{})
				})
			}
		})
	})
	return w.b
}

package swebench

import (
	"maps"
	"slices"
)

// State is what has become of a prediction's run.
type State uint8

const (
	NotReported State = iota // it ended without a report: the harness counts an error
	Unreadable               // its report.json is empty or not to be read: completed, and an error
	Unresolved
	Resolved
)

// Submission is one prediction and its run.
type Submission struct {
	ID        string
	Empty     bool // the patch is empty or none: it is not run
	State     State
	Signature Signature // of a run that did not resolve the instance; see [Classify]
}

// RunReport is the harness's report of a run over a data set (schema_version 2).
type RunReport struct {
	instances   int
	submissions map[string]bool
	completed, incomplete, empty, resolved, unresolved, infra, ambiguous,
	errored map[string]bool
	reasons map[string]string
}

// NewRunReport makes the report of the submissions to the instances of a data set.
// Of two submissions for one instance the later counts; submissions for others are
// counted as submitted and no more.
func NewRunReport(instances []string, submissions []Submission) *RunReport {
	r := &RunReport{
		instances: len(instances), submissions: map[string]bool{},
		completed: map[string]bool{}, incomplete: map[string]bool{}, empty: map[string]bool{}, resolved: map[string]bool{},
		unresolved: map[string]bool{}, infra: map[string]bool{}, ambiguous: map[string]bool{}, errored: map[string]bool{},
		reasons: map[string]string{},
	}
	by := map[string]*Submission{}
	for i := range submissions {
		s := &submissions[i]
		by[s.ID] = s
		r.submissions[s.ID] = true
	}
	for _, id := range instances {
		if s := by[id]; s != nil {
			r.count(s)
		} else {
			r.incomplete[id] = true
		}
	}
	return r
}

func (r *RunReport) count(s *Submission) {
	if s.Empty {
		r.empty[s.ID] = true
		return
	}
	switch s.State {
	case Resolved:
		r.completed[s.ID], r.resolved[s.ID] = true, true
		return
	case Unresolved:
		r.completed[s.ID], r.unresolved[s.ID] = true, true
	case Unreadable:
		r.completed[s.ID], r.errored[s.ID] = true, true
	default:
		r.errored[s.ID] = true
	}
	switch {
	case s.Signature.Reason == "":
		return
	case s.Signature.Environment:
		r.infra[s.ID] = true
	default:
		r.ambiguous[s.ID] = true
	}
	r.reasons[s.ID] = s.Signature.Reason
}

// JSON gives the bytes that the harness writes, without what it says of Docker.
func (r *RunReport) JSON() []byte {
	var w writer
	w.object(func() {
		w.count("total_instances", r.instances)
		w.count("submitted_instances", len(r.submissions))
		w.count("completed_instances", len(r.completed))
		w.count("resolved_instances", len(r.resolved))
		w.count("unresolved_instances", len(r.unresolved))
		w.count("infra_failure_instances", len(r.infra))
		w.count("ambiguous_failure_instances", len(r.ambiguous))
		w.count("empty_patch_instances", len(r.empty))
		w.count("error_instances", len(r.errored))
		w.set("completed_ids", r.completed)
		w.set("incomplete_ids", r.incomplete)
		w.set("empty_patch_ids", r.empty)
		w.set("submitted_ids", r.submissions)
		w.set("resolved_ids", r.resolved)
		w.set("unresolved_ids", r.unresolved)
		w.set("infra_failure_ids", r.infra)
		w.set("ambiguous_failure_ids", r.ambiguous)
		w.key("failure_reasons")
		w.object(func() {
			for _, id := range slices.Sorted(maps.Keys(r.reasons)) {
				w.key(id)
				w.string(r.reasons[id])
			}
		})
		w.set("error_ids", r.errored)
		w.count("schema_version", 2)
	})
	return append(w.b, '\n')
}

func (w *writer) set(key string, of map[string]bool) {
	w.key(key)
	w.list(slices.Sorted(maps.Keys(of)))
}

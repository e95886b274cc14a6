// Rules is the default judge of issue reproduction (ALGORITHMS 1, "Judge"): fixed
// rules on the script's two logs, no model, the same answer every time.
package main

import (
	"context"

	"github.com/valence-rl/valence/sdk"
)

type skill struct{}

func init() { sdk.Register(skill{}) }
func main() { sdk.Main() }

func (skill) Describe() (name, version string) { return "rules", "0.1.0" }

// Judge says that the issue is reproduced if and only if
//
//  1. the script failed on the original code: an exit status other than 0, no
//     signal, no time limit,
//  2. for a reason that is not the script's own: no syntax error in it, no module
//     or name that it lacks, unless the issue speaks of that very error,
//  3. showing an exception that the issue names as what happens, if it names one,
//  4. and succeeded on the fixed code: exit status 0, no time limit.
//
// The confidence is 0.95 where the logs bear the verdict out in so many words and
// lower where only exit statuses speak.
func (skill) Judge(_ context.Context, _ sdk.Host, r *sdk.JudgeRequest) (*sdk.JudgeResponse, error) {
	no := func(confidence float64, why string) (*sdk.JudgeResponse, error) {
		return &sdk.JudgeResponse{Confidence: confidence, Rationale: why}, nil
	}
	named := symptoms(r.Issue)
	before := lastError(r.Before.Output)
	switch {
	case r.Before.TimedOut:
		return no(0.9, "the script did not end on the original code")
	case r.Before.ExitCode == 0:
		return no(0.95, "the script succeeds on the original code, so that it does not show the issue")
	case r.Before.ExitCode >= 128:
		return no(0.9, "the script was killed by a signal on the original code")
	}
	if why := before.scriptsOwn(named, r.Issue); why != "" {
		return no(0.9, "the script fails for a reason of its own: "+why)
	}
	shown := ""
	if len(named) > 0 {
		for _, name := range named {
			if mentions(r.Before.Output, name) {
				shown = name
				break
			}
		}
		if shown == "" {
			return no(0.85, "the issue speaks of "+list(named)+", but the log of the original code shows "+before.describe())
		}
	}
	switch {
	case r.After.TimedOut:
		return no(0.9, "the script did not end on the fixed code")
	case r.After.ExitCode != 0:
		return no(0.95, "the script also fails on the fixed code, with "+lastError(r.After.Output).describe())
	}
	yes := &sdk.JudgeResponse{Verdict: true}
	switch {
	case shown != "":
		yes.Confidence = 0.95
		yes.Rationale = "the script shows " + shown + ", as the issue says, and succeeds on the fixed code"
	case before.name != "":
		yes.Confidence = 0.9
		yes.Rationale = "the script fails with " + before.describe() + " and succeeds on the fixed code"
	default:
		yes.Confidence = 0.7
		yes.Rationale = "the script fails on the original code and succeeds on the fixed code, without saying why"
	}
	return yes, nil
}

package report

import "fmt"

// What makes a warning.
const (
	climbBy    = 0.15 // a filtered share that rose by so much between the first and the last third …
	climbTo    = 0.20 // … to at least this
	driftBy    = 0.05 // realised share against configured
	lostShare  = 0.05 // of attempts that the infrastructure failed
	clipShare  = 0.30
	lowEntropy = 0.02
)

// warn looks for what a reader should not miss.
func (r *Report) warn() {
	add := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if n := len(r.Steps); n >= 6 {
		for _, name := range r.Skills() {
			early, late := r.filtered(name, 0, n/3), r.filtered(name, n-n/3, n)
			if late >= climbTo && late-early >= climbBy {
				add("%s: the filtered share of its episodes climbed from %s to %s. Episodes that are masked out are not punished, so a policy can learn to end that way. Count those ends as failures: [grpo] filter without max_steps.", name, percent(early), percent(late))
			}
		}
	}
	if n := len(r.Steps); n > 0 {
		last := r.Steps[n-1]
		for _, name := range r.Skills() {
			k := last.Skills[name]
			if k != nil && n >= 5 && abs(k.Realised-k.Weight) > driftBy {
				add("%s: %s of the groups were its own, %s are configured.", name, percent(k.Realised), percent(k.Weight))
			}
		}
		if last.ClipShare > clipShare {
			add("In the last step the clip removed the gradient of %s of the tokens; lower the learning rate.", percent(last.ClipShare))
		}
		if last.Entropy > 0 && last.Entropy < lowEntropy {
			add("The policy's entropy fell to %s nats a token: its samples hardly differ, and groups without differences teach nothing.", number(last.Entropy))
		}
	}
	failed, episodes := 0, 0
	for _, s := range r.Steps {
		for _, n := range s.Errors {
			failed += n
		}
		for _, k := range s.Skills {
			episodes += k.Episodes
		}
	}
	if failed > 0 && float64(failed) > lostShare*float64(episodes+failed) {
		add("%d attempts failed for reasons that are not the policy's (%s of all); see errors.", failed, percent(float64(failed)/float64(episodes+failed)))
	}
	for _, s := range r.Splits {
		excluded := 0
		for _, k := range s.After.Skills {
			excluded += k.Excluded
		}
		if excluded > 0 {
			add("%d episodes of the last evaluation on %s are excluded because the infrastructure failed.", excluded, s.Name)
		}
	}
}

// filtered is the mean filtered share of a skill over some steps.
func (r *Report) filtered(skill string, from, to int) float64 {
	sum, n := 0.0, 0
	for _, s := range r.Steps[from:to] {
		if k := s.Skills[skill]; k != nil && k.Episodes > 0 {
			sum += k.Filtered
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

func abs(f float64) float64 { return max(f, -f) }

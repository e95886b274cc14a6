package eval

import "math"

// Solved is the score from which an answer counts as right where only right and
// wrong are told apart.
const Solved = 0.5

// Agreement compares two sets of scores of the same answers.
type Agreement struct {
	Answers int
	Table   [2][2]int // Table[before][after], 1 for scores of at least Solved
	Exact   int       // answers with the same score
	Binary  bool      // every score is 0 or 1
	Share   float64   // of answers on the same side of Solved
	// Kappa is Cohen's: (p − e)/(1 − e) for the observed share p and the share e that two
	// independent raters with the same habits would reach (Cohen 1960). NaN where e is 1:
	// both gave one and the same answer throughout.
	Kappa float64
	Apart float64 // mean |before − after|
}

// Agree compares before and after, answer by answer. Both have the same length;
// without answers the shares are NaN.
func Agree(before, after []float64) Agreement {
	a := Agreement{Answers: len(before), Binary: true}
	for i, x := range before {
		y := after[i]
		a.Table[side(x)][side(y)]++
		if x == y {
			a.Exact++
		}
		a.Apart += math.Abs(x - y)
		a.Binary = a.Binary && (x == 0 || x == 1) && (y == 0 || y == 1)
	}
	n := float64(a.Answers)
	a.Share = float64(a.Table[0][0]+a.Table[1][1]) / n
	a.Apart /= n
	chance := 0.0
	for s := range 2 {
		chance += float64(a.Table[s][0]+a.Table[s][1]) / n * float64(a.Table[0][s]+a.Table[1][s]) / n
	}
	a.Kappa = (a.Share - chance) / (1 - chance)
	if chance == 1 {
		a.Kappa = math.NaN()
	}
	return a
}

func side(score float64) int {
	if score >= Solved {
		return 1
	}
	return 0
}

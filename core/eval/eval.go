// Package eval turns stored scores into statements: averages, pass rates and
// differences, each with an interval (ALGORITHMS 6).
//
// The unit that is resampled is the task, never the episode: k runs of one task
// are not k independent observations of a skill. Every interval is the
// percentile interval of a seeded bootstrap (Efron 1979), so a report repeats bit
// for bit.
//
// A row holds one task's scores, one a run. Rows may differ in length: an episode
// lost to the infrastructure is absent, it is not a 0. A row without any score
// is left out.
package eval

import "math"

// Draws is the number of resamples of a bootstrap.
const Draws = 10_000

// Level is the coverage of every interval.
const Level = 0.95

// Estimate is a mean with its interval.
type Estimate struct {
	Avg   float64
	CI    [2]float64 // low and high bound
	Tasks int        // that had a score; with 0 the rest is NaN
}

// Average is Avg@k: the mean over tasks of each task's mean score over its runs,
// with its interval. seed fixes the resampling.
func Average(rows [][]float64, seed uint64) Estimate {
	return macro([][]float64{taskMeans(rows)}, seed)
}

// Macro is the mean over skills of their Avg@k, every skill weighing the same. Its
// interval resamples the tasks within each skill. Skills without any score are left
// out.
func Macro(skills [][][]float64, seed uint64) Estimate {
	means := make([][]float64, len(skills))
	for i, rows := range skills {
		means[i] = taskMeans(rows)
	}
	return macro(means, seed)
}

// Paired is the mean over tasks of after − before, with its interval; rows with
// one index belong to one task. Tasks without a score on both sides are left out. By
// pairing, the difference between easy and hard tasks cancels.
func Paired(before, after [][]float64, seed uint64) Estimate {
	return macro([][]float64{taskDifferences(before, after)}, seed)
}

// MacroPaired is the mean over skills of their paired differences. Both
// arguments list the same skills.
func MacroPaired(before, after [][][]float64, seed uint64) Estimate {
	d := make([][]float64, len(before))
	for i := range before {
		d[i] = taskDifferences(before[i], after[i])
	}
	return macro(d, seed)
}

// PassAt is pass@k: the mean over tasks of 1 − C(n−c,k)/C(n,k), the unbiased
// estimate of the chance that one of k runs scores 1, from n runs of which c did
// (arXiv 2107.03374 eq. 1). A task with fewer than k scores is left out; Tasks
// says how many were not.
func PassAt(k int, rows [][]float64, seed uint64) Estimate {
	var values []float64
	for _, r := range rows {
		n, c := len(r), 0
		for _, s := range r {
			if s >= 1 {
				c++
			}
		}
		if k < 1 || n < k {
			continue
		}
		miss := 1.0
		for i := n - c + 1; i <= n; i++ {
			miss *= math.Max(0, 1-float64(k)/float64(i))
		}
		values = append(values, 1-miss)
	}
	return macro([][]float64{values}, seed)
}

// taskMeans gives the mean of each row that has scores.
func taskMeans(rows [][]float64) []float64 {
	var out []float64
	for _, r := range rows {
		if len(r) > 0 {
			out = append(out, mean(r))
		}
	}
	return out
}

func taskDifferences(before, after [][]float64) []float64 {
	var out []float64
	for i := range min(len(before), len(after)) {
		if len(before[i]) > 0 && len(after[i]) > 0 {
			out = append(out, mean(after[i])-mean(before[i]))
		}
	}
	return out
}

func mean(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

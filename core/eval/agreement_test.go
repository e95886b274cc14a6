package eval

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// pairs lists n answers for each cell of a confusion table.
func pairs(table [2][2]int) (before, after []float64) {
	for x := range 2 {
		for y := range 2 {
			for range table[x][y] {
				before, after = append(before, float64(x)), append(after, float64(y))
			}
		}
	}
	return before, after
}

func TestAgree(t *testing.T) {
	for _, c := range []struct {
		name  string
		table [2][2]int
		share float64
		kappa float64
	}{
		// p = 35/50; e = (25·30 + 25·20)/50² = 0.5.
		{"some", [2][2]int{{15, 10}, {5, 20}}, 0.7, 0.4},
		{"all, both answers", [2][2]int{{3, 0}, {0, 7}}, 1, 1},
		{"none", [2][2]int{{0, 5}, {5, 0}}, 0, -1},
		{"as chance has it", [2][2]int{{4, 4}, {4, 4}}, 0.5, 0},
		// p = 9/10; e = (10·9 + 0·1)/10² = 0.9: nothing beyond chance.
		{"one rater never says yes", [2][2]int{{9, 1}, {0, 0}}, 0.9, 0},
		{"always the same answer", [2][2]int{{8, 0}, {0, 0}}, 1, math.NaN()},
	} {
		a := Agree(pairs(c.table))
		if a.Table != c.table || !near(a.Share, c.share) || !(near(a.Kappa, c.kappa) || math.IsNaN(a.Kappa) && math.IsNaN(c.kappa)) || !a.Binary {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

func TestAgreeOnFractions(t *testing.T) {
	a := Agree([]float64{0.2, 0.5, 0.75, 1}, []float64{0.2, 0.4, 1, 1})
	if want := [2][2]int{{1, 0}, {1, 2}}; a.Table != want || a.Exact != 2 || a.Binary || !near(a.Apart, 0.0875) || !near(a.Share, 0.75) {
		t.Errorf("%+v", a)
	}
}

func TestAgreeOnNothing(t *testing.T) {
	if a := Agree(nil, nil); a.Answers != 0 || !math.IsNaN(a.Share) || !math.IsNaN(a.Kappa) || !math.IsNaN(a.Apart) {
		t.Errorf("%+v", a)
	}
}

func TestAgreementIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		score := rapid.SliceOfN(rapid.Float64Range(0, 1), n, n)
		x, y := score.Draw(t, "before"), score.Draw(t, "after")
		a, b := Agree(x, y), Agree(y, x)
		if !(near(a.Kappa, b.Kappa) || math.IsNaN(a.Kappa) && math.IsNaN(b.Kappa)) || !near(a.Apart, b.Apart) || a.Exact != b.Exact {
			t.Fatalf("%+v, %+v", a, b)
		}
		if a.Kappa > 1+1e-12 || a.Kappa < -1-1e-12 {
			t.Fatalf("kappa %g", a.Kappa)
		}
		if c := Agree(x, x); c.Share != 1 || c.Apart != 0 {
			t.Fatalf("with itself: %+v", c)
		}
	})
}

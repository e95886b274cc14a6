package eval

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func TestAverage(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  [][]float64
		avg   float64
		tasks int
		point bool // the interval is the mean itself
	}{
		{"equal rows", [][]float64{{1, 0}, {1, 1}}, .75, 2, false},
		{"an excluded episode", [][]float64{{1}, {0, 0, 0}}, .5, 2, false},
		{"an excluded task", [][]float64{{1, 0}, {}, nil}, .5, 1, true},
		{"all alike", [][]float64{{.25}, {.25}, {.25}}, .25, 3, true},
	} {
		e := Average(c.rows, 1)
		if !near(e.Avg, c.avg) || e.Tasks != c.tasks || e.CI[0] > c.avg || e.CI[1] < c.avg {
			t.Errorf("%s: %+v", c.name, e)
		}
		if c.point != (near(e.CI[0], e.Avg) && near(e.CI[1], e.Avg)) {
			t.Errorf("%s: interval %v", c.name, e.CI)
		}
	}
	for _, rows := range [][][]float64{nil, {{}}} {
		if e := Average(rows, 1); e.Tasks != 0 || !math.IsNaN(e.Avg) || !math.IsNaN(e.CI[0]) {
			t.Errorf("no score: %+v", e)
		}
	}
}

// Half of 400 tasks pass: the interval is the normal one, .5 ± 1.96·√(.25/400).
func TestIntervalWidth(t *testing.T) {
	var rows [][]float64
	for i := range 400 {
		rows = append(rows, []float64{float64(i % 2)})
	}
	e := Average(rows, 5)
	if math.Abs(e.CI[0]-.451) > .0025 || math.Abs(e.CI[1]-.549) > .0025 {
		t.Errorf("%v", e.CI)
	}
	if again := Average(rows, 5); again != e {
		t.Errorf("%v, then %v", e, again)
	}
	// Repeating every run tells nothing new: tasks are resampled, not episodes.
	for i := range rows {
		rows[i] = []float64{rows[i][0], rows[i][0], rows[i][0]}
	}
	if tripled := Average(rows, 5); tripled != e {
		t.Errorf("three equal runs: %v, one: %v", tripled, e)
	}
	// Another seed moves the bounds by little.
	if other := Average(rows, 6); other == e || math.Abs(other.CI[0]-e.CI[0]) > .005 {
		t.Errorf("seed 5: %v, seed 6: %v", e, other)
	}
}

// How often the interval holds the truth, over many samples of a known mean.
func TestCoverage(t *testing.T) {
	r := stream(11)
	held := 0
	const samples = 200
	for range samples {
		var rows [][]float64
		for range 60 {
			var row []float64
			p := float64(r.next()>>11) / (1 << 53)
			for range 4 {
				row = append(row, map[bool]float64{true: 1}[float64(r.next()>>11)/(1<<53) < p])
			}
			rows = append(rows, row)
		}
		if e := Average(rows, r.next()); e.CI[0] <= .5 && .5 <= e.CI[1] {
			held++
		}
	}
	if share := float64(held) / samples; share < .9 || share > .99 {
		t.Errorf("95%% intervals held the truth in %v of %d samples", share, samples)
	}
}

func TestPassAt(t *testing.T) {
	rows := [][]float64{{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 0, 0}, {1, .9, 1, 1}, {1}}
	for _, c := range []struct {
		k     int
		want  float64
		tasks int
	}{
		{1, (.25 + .5 + 0 + .75 + 1) / 5, 5},
		{2, (1./2 + 5./6 + 0 + 1) / 4, 4}, // 1−C(3,2)/C(4,2), 1−C(2,2)/C(4,2)
		{4, .75, 4},
	} {
		e := PassAt(c.k, rows, 1)
		if !near(e.Avg, c.want) || e.Tasks != c.tasks {
			t.Errorf("pass@%d: %+v, want %v of %d", c.k, e, c.want, c.tasks)
		}
	}
	for _, k := range []int{0, 5} {
		if e := PassAt(k, rows, 1); e.Tasks != 0 {
			t.Errorf("pass@%d: %+v", k, e)
		}
	}
}

// pass@k is the share of the k-subsets of runs that hold a pass.
func TestPassAtDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(rapid.SampledFrom([]float64{0, .5, 1}), 1, 9).Draw(t, "row")
		k := rapid.IntRange(1, len(row)).Draw(t, "k")
		subsets, hits := 0, 0
		for set := range 1 << len(row) {
			size, hit := 0, false
			for i, s := range row {
				if set>>i&1 == 1 {
					size++
					hit = hit || s == 1
				}
			}
			if size == k {
				subsets++
				if hit {
					hits++
				}
			}
		}
		if got, want := PassAt(k, [][]float64{row}, 1).Avg, float64(hits)/float64(subsets); math.Abs(got-want) > 1e-9 {
			t.Fatalf("pass@%d of %v: %v, want %v", k, row, got, want)
		}
	})
}

func TestPaired(t *testing.T) {
	// Tasks differ widely, but each improves by exactly .2.
	var before, after [][]float64
	for i := range 20 {
		s := float64(i) / 25
		before, after = append(before, []float64{s, s}), append(after, []float64{s + .2})
	}
	before, after = append(before, nil, []float64{0}), append(after, []float64{1}, nil)
	e := Paired(before, after, 1)
	if want := (Estimate{Avg: .2, CI: [2]float64{.2, .2}, Tasks: 20}); !cmp.Equal(want, e, cmpopts.EquateApprox(0, 1e-12)) {
		t.Errorf("%+v", e)
	}
	if same := Paired(before, before, 1); same.Avg != 0 || same.CI != [2]float64{} {
		t.Errorf("against itself: %+v", same)
	}
}

func TestMacro(t *testing.T) {
	// A skill's number of tasks does not change its weight.
	many := [][]float64{{1}, {1}, {1}, {1}, {1}, {1}, {1}, {0}}
	few := [][]float64{{0}, {0}}
	e := Macro([][][]float64{many, few, nil}, 1)
	if !near(e.Avg, .4375) || e.Tasks != 10 {
		t.Errorf("%+v", e)
	}
	// few never varies, so the interval is half that of many.
	m := Average(many, 1)
	if math.Abs(e.CI[0]-m.CI[0]/2) > .035 || math.Abs(e.CI[1]-m.CI[1]/2) > .035 {
		t.Errorf("macro %v, one skill %v", e.CI, m.CI)
	}
	d := MacroPaired([][][]float64{many, few}, [][][]float64{many, {{1}, {0}}}, 1)
	if !near(d.Avg, .25) {
		t.Errorf("%+v", d)
	}
}

func TestQuantile(t *testing.T) {
	x := []float64{0, 1, 2, 3}
	for q, want := range map[float64]float64{0: 0, .5: 1.5, 1: 3, 1. / 3: 1} {
		if got := quantile(x, q); !near(got, want) {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if got := quantile([]float64{7}, .975); got != 7 {
		t.Error(got)
	}
}

func BenchmarkAverage(b *testing.B) {
	rows := make([][]float64, 100)
	for i := range rows {
		rows[i] = []float64{float64(i % 2), float64(i % 3), 0, 1}
	}
	for b.Loop() {
		Average(rows, 1)
	}
}

package config

// nearest gives the word of list that is most likely meant by s, or "" if none is
// near: at most a third of the longer word's letters differ, and never more than three.
func nearest(s string, list []string) string {
	best, at := "", 0
	for _, w := range list {
		d := distance(s, w)
		if limit := min(3, max(1, max(len(s), len(w))/3)); d <= limit && (best == "" || d < at) {
			best, at = w, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

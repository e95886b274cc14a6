package registry

// suggest finds the word of a few that is at most two edits away.
func suggest(word string, among []string) string {
	best, at := "", 3
	for _, w := range among {
		if d := distance(word, w); d < at && d < len(w) {
			best, at = w, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + quote(best) + "?"
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

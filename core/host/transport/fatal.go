package transport

import "strings"

// Fatal finds the line by which Go's runtime explains its end.
func Fatal(printed string) (string, bool) {
	for line := range strings.Lines(printed) {
		if rest, ok := strings.CutPrefix(line, "fatal error: "); ok {
			return strings.TrimSpace(rest), true
		}
		if rest, ok := strings.CutPrefix(line, "panic: "); ok {
			return "panic: " + strings.TrimSpace(rest), true
		}
	}
	return "", false
}

package process

import "time"

// Pauses before a process is started again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// backOff is the pause after so many processes in a row that ended before they
// answered anything. The first is replaced at once.
func backOff(failures int) time.Duration {
	if failures < 2 {
		return 0
	}
	d := firstPause
	for range failures - 2 {
		if d *= 2; d >= longestPause {
			return longestPause
		}
	}
	return d
}

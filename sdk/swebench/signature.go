package swebench

import (
	"strings"

	"github.com/valence-rl/valence/sdk/testlog"
)

// Signature is what a log shows of a failure that is not the tests'.
type Signature struct {
	Reason      string // as "out_of_memory"; "" if the log shows none
	Environment bool   // no patch can cause it; else it may be either
}

// Classify finds the first signature of the harness's list in the texts given,
// test_output.txt and run_instance.log, which are taken as one.
func Classify(texts ...string) Signature {
	log := testlog.Newlines(strings.Join(texts, "\n"))
	for _, s := range signatures {
		for _, text := range s.texts {
			if strings.Contains(log, text) {
				return Signature{s.reason, s.environment}
			}
		}
		if s.reason == "out_of_memory" && hasLine(log, "Killed") {
			return Signature{s.reason, s.environment}
		}
	}
	if ranOutOfTime(log) {
		return Signature{"tests_timed_out", false}
	}
	return Signature{}
}

var signatures = [...]struct {
	reason      string
	environment bool
	texts       []string
}{
	{"browser_launch_failed", true, []string{"Failed to launch", "Failed to connect to the bus"}},
	{"display_unavailable", true, []string{"cannot open display", "Missing X server", "unable to open X display"}},
	{"out_of_memory", true, []string{"Cannot allocate memory", "OutOfMemoryError"}},
	{"container_unavailable", true, []string{"Error response from daemon", "Cannot connect to the Docker daemon"}},
	{"network_unreachable", true, []string{"Could not resolve host", "Temporary failure in name resolution"}},
	{"missing_module", false, []string{"Cannot find module", "MODULE_NOT_FOUND", "ModuleNotFoundError"}},
	{"no_tests_collected", false, []string{"no tests ran", "collected 0 items"}},
}

func hasLine(log, line string) bool {
	for l := range strings.SplitSeq(log, "\n") {
		if l == line {
			return true
		}
	}
	return false
}

// ranOutOfTime reports whether the harness noted a timeout at the end of a log.
func ranOutOfTime(log string) bool {
	return after(log, "Timeout error: ", func(_, rest string) bool {
		n := digits(rest)
		return n > 0 && strings.HasPrefix(rest[n:], " seconds exceeded")
	})
}

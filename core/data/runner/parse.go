package runner

import (
	"encoding/json"
	"strings"

	"github.com/valence-rl/valence/sdk/grade"
)

// parse reads a log of a named format; nil if there is none of the name.
func parse(format, log string) grade.Results {
	if format == "gotest_json" {
		return goJSON(log)
	}
	r, _ := grade.ParseLog(format, log)
	return r
}

func goJSON(log string) grade.Results {
	r := grade.Results{}
	for line := range strings.Lines(log) {
		var e struct{ Action, Package, Test string }
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Test == "" {
			continue
		}
		id := e.Package + "/" + e.Test
		switch e.Action {
		case "pass":
			r[id] = grade.Passed
		case "fail":
			r[id] = grade.Failed
		case "skip":
			r[id] = grade.Skipped
		}
	}
	return r
}

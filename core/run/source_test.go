package run

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Records that give no task are counted, with what most of them lack.
func TestSkippedRecordsAreCounted(t *testing.T) {
	for _, c := range []struct {
		records int
		reasons map[string]int
		asked   bool
		want    string
	}{
		{5, nil, true, ""},
		{5, map[string]int{"no test": 1, "no patch": 2}, true, `level=WARN msg="records that give no task" skill=s records=5 without=3 reason="no patch"`},
		{5, map[string]int{"no test": 1, "no patch": 2}, false, `level=INFO msg="records that give no task" skill=s records=5 without=3 reason="no patch"`},
		{3, map[string]int{"no test": 2, "no patch": 1}, false, `level=WARN msg="no record gives a task" skill=s records=3 without=3 reason="no test"`},
		{1, map[string]int{"": 1}, false, `level=WARN msg="no record gives a task" skill=s records=1 without=1 reason="the plugin says none"`},
	} {
		var b bytes.Buffer
		s := Setup{log: slog.New(slog.NewTextHandler(&b, nil))}
		s.noteSkipped("s", c.records, c.reasons, c.asked)
		if _, got, _ := strings.Cut(strings.TrimSpace(b.String()), " "); got != c.want {
			t.Errorf("%v: said %q, want %q", c.reasons, got, c.want)
		}
	}
}

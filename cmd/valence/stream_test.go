package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// checkReport holds report's JSON against its documented shape.
func checkReport(t *testing.T, q *quickstart) {
	dir := string(q.folder())
	p := q.plain(t, 0, "report", dir, "-o", "json")
	got := shape(t, p.stdout.Bytes())
	want := strings.Fields(`
		mean.after mean.after_ci mean.before mean.before_ci mean.delta.avg mean.delta.ci
		page run runs
		skills.after.avg skills.after.ci skills.before.avg skills.before.ci skills.delta.avg skills.delta.ci skills.name skills.tasks
		split steps`)
	got = slices.DeleteFunc(got, func(k string) bool { return k == "warnings" }) // only where there are some
	if !slices.Equal(got, want) {
		t.Errorf("keys\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var r struct {
		Run   string
		Steps int
		Runs  int
		Split string
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	steps, err := q.folder().Steps()
	if err != nil || r.Run != "small" || r.Steps != len(steps) || r.Runs != 1 || r.Split != "eval" {
		t.Errorf("%+v, %v", r, err)
	}

	for _, c := range []struct {
		dir, end string
		code     int
	}{{dir, "summary", 0}, {dir + "-not", "exit_error", 1}} {
		p := q.plain(t, c.code, "report", c.dir, "-o", "jsonl")
		lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
		first, last := lines[0], lines[len(lines)-1]
		if !strings.HasPrefix(first, `{"type":"version","stream":1,`) || !strings.HasPrefix(last, fmt.Sprintf(`{"type":%q,`, c.end)) {
			t.Errorf("report %s: the stream is\n%s", c.dir, p.stdout.String())
		}
	}
}

// shape lists the keys of a JSON object with those of the objects in it, sorted;
// the elements of an array share theirs.
func shape(t testing.TB, b []byte) []string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if d.More() {
		t.Errorf("more than one value: %s", b)
	}
	seen := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(strings.TrimPrefix(at+"."+k, "."), e)
			}
			return
		case []any:
			if len(v) > 0 {
				if _, ok := v[0].(map[string]any); ok {
					for _, e := range v {
						walk(at, e)
					}
					return
				}
			}
		}
		seen[at] = true
	}
	walk("", v)
	var out []string
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/run"
	"github.com/valence-rl/valence/core/transcript"
)

// gather are the arguments of data trajectories that gather into a folder.
func (q *quickstart) gather(out string, more ...string) []string {
	args := []string{"data", "trajectories", "-c", "examples/quickstart/run.toml", "--progress", "none", "--out", out, "-o", "jsonl"}
	for _, s := range q.sets {
		args = append(args, "--set", s)
	}
	return append(args, more...)
}

// gatheredTurns are the turns of the episodes of a folder's files, by the episodes' IDs.
func gatheredTurns(t *testing.T, pattern string) map[string][]transcript.Turn {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]transcript.Turn{}
	for _, f := range files {
		for e, err := range journal.ReadEpisodes(f) {
			if err != nil {
				t.Fatal(err)
			}
			x, err := transcript.FromEpisode(&e)
			if err != nil {
				t.Fatal(err)
			}
			if e.Outcome != journal.Scored {
				continue
			}
			if _, twice := out[e.ID]; twice {
				t.Errorf("%s is there twice", e.ID)
			}
			out[e.ID] = x.Turns
		}
	}
	return out
}

// A served policy's trajectories are gathered through a kill of the program and failures of
// the server: the same are kept as from the embedded engine, and no try that has a verdict
// is played twice.
func TestGatheringThroughAKill(t *testing.T) {
	adopt(t)
	q := newQuickstart(t, "policy.temperature=0", "skills.editing.weight=0", "skills.unittest.weight=0", "skills.repro.weight=0")
	dir := t.TempDir()
	engine, served := filepath.Join(dir, "engine"), filepath.Join(dir, "served")
	q.plain(t, 4, q.gather(engine, "--per-skill", "20")...)
	want := gatheredTurns(t, filepath.Join(engine, "*.zst"))
	if tried := gatheredTurns(t, filepath.Join(engine, "tries", "*.zst")); len(want) == 0 || len(tried) != 24 || len(want) == len(tried) {
		t.Fatalf("%d of %d tries are kept", len(want), len(tried))
	}

	server := newEngineServer(t, policyFolder(t))
	q.sets = append(q.sets, "server.model=m", "server.chat=brief", `server.base_urls=["`+server.url+`"]`, "server.output_price=1000000", "server.attempts=20")
	server.fail(t, func(n int, w http.ResponseWriter) bool {
		if n%4 == 0 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
		return n%4 == 0
	})
	args := q.gather(served, "--per-skill", "20", "--policy", "openai")
	p := q.bare(t.Context(), t, args...)
	p.Stdout = nil
	lines, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	q.start(t, p)
	in := bufio.NewScanner(lines)
	for n := 0; n < 5 && in.Scan(); {
		if strings.HasPrefix(in.Text(), `{"type":"try"`) {
			n++
		}
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for in.Scan() {
	}
	p.Wait()
	orphans(t)
	budget := q.plain(t, 4, append(args, "--budget", "1usd")...)
	rest := q.plain(t, 4, args...)
	if d := cmp.Diff(want, gatheredTurns(t, filepath.Join(served, "*.zst"))); d != "" {
		t.Error(d)
	}
	if n := len(gatheredTurns(t, filepath.Join(served, "tries", "*.zst"))); n != 24 {
		t.Errorf("%d tries", n)
	}
	for b, stopped := range map[*process]string{budget: run.StoppedByBudget, rest: ""} {
		out := strings.Split(strings.TrimSpace(b.stdout.String()), "\n")
		var got run.Trajectories
		if err := json.Unmarshal([]byte(out[len(out)-1]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Stopped != stopped || got.Server == nil || got.Cost == 0 || got.Tokens == 0 {
			t.Errorf("%+v", got)
		}
	}
	q.leavesNothing(t)
}

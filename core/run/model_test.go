package run

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/scoring/modeltest"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/wire"
)

// builders opens the two skills whose tasks a model may help to build.
func builders(t *testing.T, model string) (*Setup, error) {
	t.Helper()
	c, err := config.Parse("run.toml", fmt.Appendf(nil, `
[run]
name = "built"
dir = %q
[policy]
path = "none"
[eval]
tasks = 1
[[source]]
kind = "pocket"
split = "eval"
count = 1
[skills.unittest]
plugin = "../../plugins/unittest"
config = { mutants_from = "model" }
[skills.review]
plugin = "../../plugins/review"
config = { candidates_from = "model" }
%s`, t.TempDir(), model), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), c, Options{})
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

// Tasks that a model helped to build: the mutants that the record's tests catch, the
// candidates that they label. A later run builds the same without the server.
func TestModelBuildsTasks(t *testing.T) {
	const right, wrong = "max(low, min(x, high))", "min(low, min(x, high))"
	server := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, asked map[string]any) {
		if strings.Contains(modeltest.Content(asked, 0), "faulty variants") {
			modeltest.Says(w, `{"mutants":[{"old":"`+right+`","new":"max(low, x)","why":"high"},{"old":"`+right+`","new":"max(low, min(high, x))","why":"none"}]}`)
			return
		}
		modeltest.Says(w, `{"candidates":[{"edits":[{"path":"shop.py","old":"`+wrong+`","new":"`+right+`"}]},{"edits":[{"path":"shop.py","old":"`+wrong+`","new":"max(low, x)"}]}]}`)
	})
	cache := t.TempDir()
	rec := recordOf(clamp)
	built := func() []*sdk.Task {
		s, err := builders(t, at(server, cache))
		if err != nil {
			t.Fatal(err)
		}
		var out []*sdk.Task
		for _, k := range s.Skills {
			tasks, err := s.build(t.Context(), k.Binding(), []record{{&rec, 3}})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, tasks...)
		}
		if len(out) != 2 {
			t.Fatalf("%d tasks", len(out))
		}
		return out
	}
	tasks := built()
	hidden, err := grade.Reveal(tasks[0])
	if err != nil || len(hidden.Mutants) != 1 || !strings.Contains(string(hidden.Mutants[0].Files[0].Data), "return max(low, x)\n") {
		t.Errorf("mutants %+v, %v", hidden.Mutants, err)
	}
	hidden, err = grade.Reveal(tasks[1])
	if c := hidden.Candidates; err != nil || len(c) != 1 || c[0].Origin != "model" || c[0].Correct != strings.Contains(c[0].Patch, "+    return "+right+"\n") {
		t.Errorf("candidates %+v, %v", c, err)
	}
	n := len(server.Requests())
	server.Close()
	for i, again := range built() {
		if !bytes.Equal(wire.Marshal(tasks[i]), wire.Marshal(again)) {
			t.Errorf("%s is another task now", again.Key)
		}
	}
	if len(server.Requests()) != n {
		t.Error("known answers were asked for")
	}
}

func TestBuildingWithoutTheModel(t *testing.T) {
	down := modeltest.Recorded(t, func(_ int, w http.ResponseWriter, _ map[string]any) {
		http.Error(w, "no such model", http.StatusNotFound)
	})
	for _, c := range []struct {
		model, want string
		kind        diag.Kind
	}{
		{"", "no model is configured; set [model] base_url and name", diag.KindConfig},
		{at(down, ""), "404 Not Found: no such model", diag.KindJudge},
	} {
		if _, err := builders(t, c.model); diag.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("kind %s, error %v", diag.KindOf(err), err)
		}
	}
}

package host

import (
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk"
)

// wildProcess is wild in a process.
func wildProcess(t testing.TB) *Plugin {
	t.Helper()
	m, err := registry.Resolve(t.Context(), "testdata/wild", registry.Options{Transport: registry.Process})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(t.Context(), m, Options{Grants: []string{"sandbox", "judge", "log", "model"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// TestProcess asks a process what the other tests ask a module.
func TestProcess(t *testing.T) {
	p := wildProcess(t)
	if p.Transport() != registry.Process {
		t.Errorf("transport %s", p.Transport())
	}
	r, err := p.Build(t.Context(), nil, &sdk.BuildRequest{Record: sdk.Record{ID: "r"}})
	if err != nil || r.Tasks[0].Key != "wild/r" {
		t.Error(r, err)
	}
	for prompt, words := range map[string]string{
		"model":                "capability model: denied: plugin wild does not declare it",
		"run":                  "capability sandbox: not offered to evaluate",
		"score 1.5":            "the answer makes no sense: score is 1.5, want 0 to 1",
		"exit":                 "ended its program with status 7\n  | on standard output\n  | on standard error",
		"panic":                "panic: assignment to entry in nil map",
		"score NaN":            "score is NaN",
		"recurse":              "stack overflow",
		"nil":                  "neither an answer nor an error",
		"deadlock":             "deadline: no answer after 200ms",
		"panic in a goroutine": "the plugin's runtime gave up: panic: elsewhere",
	} {
		_, err := p.Evaluate(t.Context(), nil, &sdk.EvaluateRequest{Task: sdk.Task{Key: "wild/1", Prompt: prompt}, Timeout: timeoutOf(prompt)})
		wants(t, err, diag.KindPlugin, "evaluate: wild 1.2.3: wild/1: ", words)
		if v, err := evaluate(t, p, nil, "fine"); err != nil || v.Score != 0.5 {
			t.Errorf("after %s: %v, %v", prompt, v, err)
		}
	}
}

// timeoutOf is that of a prompt that never answers, in milliseconds; 0 for others.
func timeoutOf(prompt string) int64 {
	if prompt == "deadlock" {
		return 200
	}
	return 0
}

func TestProcessIsComparedWithTheManifest(t *testing.T) {
	m, err := registry.Resolve(t.Context(), "testdata/minimal", registry.Options{Transport: registry.Process})
	if err != nil {
		t.Fatal(err)
	}
	m.Manifest.Version = "0.2.0"
	_, err = Load(t.Context(), m, Options{})
	wants(t, err, diag.KindPlugin, "P008", `its version is "0.1.0", the manifest says "0.2.0"`)
}

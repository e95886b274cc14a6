// Package layering holds the test of the import direction (see docs/architecture.md).
package layering

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/valence-rl/valence/"

// leaves may import the sdk, diag and what is listed beside them, nothing else of Valence.
var leaves = map[string][]string{
	"core/diag":                nil,
	"core/atif":                nil,
	"core/engine":              nil,
	"core/sandbox":             nil,
	"core/patch":               nil,
	"core/hostile":             nil,
	"core/buffer":              nil,
	"core/grpo":                nil,
	"core/policy":              {"core/engine"},
	"core/policy/bpe":          {"core/policy"},
	"core/policy/chat":         {"core/policy", "core/policy/bpe"},
	"core/policy/replay":       {"core/journal", "core/policy", "core/transcript"},
	"core/transcript":          {"core/atif", "core/data/rows", "core/journal", "core/policy"},
	"core/policy/served":       {"core/chatserver", "core/policy", "core/policy/chat"},
	"core/sandbox/local":       {"core/sandbox", "core/sandbox/image", "core/sandbox/seccomp", "core/sandbox/toolbox", "core/sandbox/toolserver", "core/patch"},
	"core/sandbox/seccomp":     nil,
	"core/sandbox/toolserver":  nil,
	"core/sandbox/toolbox":     {"core/sandbox", "core/sandbox/toolserver"},
	"core/sandbox/kube/inside": {"core/sandbox/seccomp", "core/sandbox/toolserver", "core/patch"},

	"core/sandbox/kube":              {"core/sandbox", "core/sandbox/kube/inside", "core/sandbox/seccomp", "core/sandbox/toolbox", "core/sandbox/toolserver", "core/patch"},
	"core/sandbox/image":             nil,
	"core/engine/gorgonia":           {"core/engine", "core/engine/safetensors"},
	"core/journal":                   {"core/atif"},
	"core/rollout":                   {"core/atif", "core/policy", "core/sandbox"},
	"core/chatserver":                nil,
	"core/chatserver/chatservertest": nil,
	"core/scoring":                   {"core/chatserver", "core/sandbox", "core/patch"},
	"core/scoring/modeltest":         nil,
	"core/eval":                      {"core/journal"},
	"core/config":                    {"core/grpo"},
	"core/dispatch":                  {"core/buffer"},
	"core/checkout":                  nil,
	"core/host":                      {"registry", "core/checkout", "core/host/process", "core/host/transport", "core/host/wasm"},
	"core/host/transport":            nil,
	"core/host/process":              {"core/host/transport"},
	"core/host/transporttest":        {"core/host/transport"},
	"core/host/wasm":                 {"core/host/transport"},
	"core/data/pocket":               {"core/policy", "core/patch"},
	"core/data/source":               nil,
	"core/data/runner":               nil,
	"core/data/symptom":              nil,
	"core/data/trial":                {"core/data/runner"},
	"core/data/reproduce":            {"core/data/trial"},
	"core/data/mutate":               {"core/chatserver", "core/scoring", "core/data/runner", "core/data/source", "core/data/symptom", "core/data/trial", "core/data/reproduce", "core/patch"},
	"core/data/candidates":           {"core/data/trial", "core/journal", "core/patch"},
	"core/data/mine":                 {"core/data/mutate", "core/data/runner", "core/data/source", "core/data/symptom", "core/data/trial", "core/data/reproduce", "core/patch"},
	"core/data/prove":                {"core/scoring"},
	"core/data/rows":                 nil,
	"core/data/suites":               nil,
	"core/data/survey":               nil,
	"core/data/records":              {"core/data/rows"},
	"core/data/formats":              {"core/data/rows", "core/data/records", "core/data/suites", "core/patch"},
	"core/data/decontaminate":        {"core/data/suites"},
	"core/data/intake":               {"core/data/formats", "core/data/records"},
	"core/examine":                   {"registry", "core/host", "core/sandbox", "core/scoring"},
	"core/report":                    {"core/journal", "core/eval", "core/atif", "core/config"},

	"core/host/wasm/internal/binary": nil,
}

// TestDirection lists what every package imports and refuses an arrow that points
// the wrong way.
func TestDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		from := strings.TrimPrefix(f[0], module)
		for _, to := range f[1:] {
			if !strings.HasPrefix(to, module) {
				if under(from, "sdk") && from != "sdk/process" && strings.Contains(strings.SplitN(to, "/", 2)[0], ".") {
					t.Errorf("%s imports %s: the sdk ends up in every guest and stays free of third-party code, but for what serves a process", from, to)
				}
				continue
			}
			seen++
			to = strings.TrimPrefix(to, module)
			if why := forbidden(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
	if seen < 30 {
		t.Fatalf("looked at %d imports only; the listing is broken", seen)
	}
}

func forbidden(from, to string) string {
	switch {
	case strings.Contains(to, "/internal/") && under(to, from):
		return ""
	case under(to, "plugins"):
		if under(from, "plugins") {
			return ""
		}
		return "plugins reach the program as .wasm only"
	case from == "sdk/process" && to != "sdk/wire":
		return "serving a process needs the messages only"
	case under(from, "sdk"):
		if !under(to, "sdk") {
			return "the sdk knows nothing of the host"
		}
	case under(from, "plugins"):
		if !under(to, "sdk") {
			return "a plugin sees the sdk only"
		}
	case under(from, "registry"):
		if !under(to, "sdk") && to != "core/diag" && !under(to, "registry") {
			return "the registry never executes anything"
		}
	case under(to, "cmd"):
		return "nothing imports a command"
	case from == "cmd/valence-toolserver" && to != "core/sandbox/kube/inside":
		return "it is copied into every pod and stays small"
	case under(from, "cmd"), under(from, "bench"), under(from, "examples"):
		return ""
	case to == "core/run":
		return "only commands import the wiring"
	case from == "core/run":
		return ""
	default:
		allowed, leaf := leaves[from]
		if leaf && !under(to, "sdk") && to != "core/diag" && !slices.Contains(allowed, to) {
			return "a leaf imports the sdk, diag and its listed neighbours only"
		}
	}
	return ""
}

func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// TestGuestsCarryNoThirdParty lists all that a WASM guest of the sdk is built from.
func TestGuestsCarryNoThirdParty(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"sdk")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if p := strings.TrimSpace(line); !strings.HasPrefix(p, module) {
			t.Errorf("a guest carries %s", p)
		}
	}
}

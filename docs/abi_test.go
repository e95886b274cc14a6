// Package docs holds the pages of this folder to the code that they describe.
package docs

import (
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/core/host/wasm"
	"github.com/valence-rl/valence/registry"
	"github.com/valence-rl/valence/sdk/process"
	"github.com/valence-rl/valence/sdk/wire"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// blocks gives the fenced blocks of a language, without indentation.
func blocks(t *testing.T, page, language string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^( *)```"+language+"\n(.*?)^ *```$").FindAllStringSubmatch(page, -1) {
		lines := strings.Split(m[2], "\n")
		for i := range lines {
			lines[i] = strings.TrimPrefix(lines[i], m[1])
		}
		found = append(found, strings.Join(lines, "\n"))
	}
	if len(found) == 0 {
		t.Fatalf("no block of %s", language)
	}
	return found
}

// TestABINames holds numbers, names and limits.
func TestABINames(t *testing.T) {
	page := read(t, "abi.md")
	has := func(format string, args ...any) {
		t.Helper()
		if s := fmt.Sprintf(format, args...); !strings.Contains(page, s) {
			t.Errorf("abi.md does not say %s", s)
		}
	}
	messages := map[string][]string{}
	for _, m := range regexp.MustCompile(`rpc (\w+)\((\w+)\) returns \((\w+)\)`).FindAllStringSubmatch(read(t, "../sdk/wire/skill.proto"), -1) {
		messages[m[1]] = m[2:]
	}
	for _, m := range process.SkillMethods() {
		role := " `" + strings.ToLower(m.Name) + "`"
		if m.Number == wire.MethodDescribe {
			role = ""
		}
		has("| %d | `%s` | `%s` | `%s` |%s |\n", m.Number, m.Name, messages[m.Name][0], messages[m.Name][1], role)
	}
	for _, m := range process.HostMethods() {
		has("| %d | `%s` | `%s` | `%s` | `%s` |\n", m.Number, m.Name, messages[m.Name][0], messages[m.Name][1], wire.Capability(m.Number))
	}
	if n := len(process.SkillMethods()) + len(process.HostMethods()); len(messages) != n || strings.Count(page, "Request` | `")+strings.Count(page, "Line` | `") != n {
		t.Errorf("%d methods in skill.proto, %d in the code", len(messages), n)
	}
	has("## WASM: `%s`", wire.Module)
	has("and this is N = %d.", wire.ABI)
	has("`%s=%s` (the cookie)", process.CookieKey, process.CookieValue)
	has("`1|%d|unix|SOCKET|grpc|CERTIFICATE`", process.Version)
	for _, name := range []string{process.Lifeline, process.MetaHost, process.MetaCall, "/" + process.SkillService + "/*", "/" + process.HostService + "/*"} {
		has("`%s`", name)
	}
	has("| a request, an answer, a host call or its reply | %d MiB |", wire.MaxMessage>>20)
	has("| an error's text, to the host | %d KiB,", process.MaxError>>10)
	has("| memory of a WASM instance | %d MiB |", wasm.DefaultMemory>>20)
	has("| one call, the time in host services included | %.0f minutes,", host.DefaultTimeout.Minutes())
}

// TestABIExample writes the worked example anew.
func TestABIExample(t *testing.T) {
	page := read(t, "abi.md")
	_, table, _ := strings.Cut(page, "A `Verdict` with score 1")
	table, _, _ = strings.Cut(table, "### Methods")
	var digits strings.Builder
	for _, m := range regexp.MustCompile("(?m)^\\| `([0-9a-f ]+)` \\|").FindAllStringSubmatch(table, -1) {
		digits.WriteString(strings.ReplaceAll(m[1], " ", ""))
	}
	want := hex.EncodeToString(wire.Marshal(&wire.Verdict{Score: 1, Components: []wire.Component{{Name: "exact", Value: 0.5}}, Reason: "good"}))
	if digits.String() != want {
		t.Errorf("the example is %s, want %s", digits.String(), want)
	}
}

// TestABIDeclarations holds the declarations to those of the example in C, which a
// test of its own builds and loads, and the manifest to its parser.
func TestABIDeclarations(t *testing.T) {
	page, code := read(t, "abi.md"), read(t, "../examples/plugins/count-c/abi.c")
	for _, b := range blocks(t, page, "c") {
		if !strings.Contains(code, strings.TrimSpace(b)) {
			t.Errorf("the example in C does not declare\n%s", b)
		}
	}
	for _, b := range blocks(t, page, "toml") {
		if m, err := registry.ParseManifest("abi.md", []byte(b)); err != nil {
			t.Error(err)
		} else if m.ABI != wire.ABI {
			t.Errorf("abi %d", m.ABI)
		}
	}
}

// TestABILinks finds every file that the page points to.
func TestABILinks(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, "abi.md"), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Error(err)
		}
	}
}

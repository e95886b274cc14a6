package local

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

// updateTable, in the environment, writes the table instead of comparing it.
const updateTable = "VALENCE_UPDATE_TABLE"

// The page on sandboxes says of each level what the driver says of itself.
func TestTable(t *testing.T) {
	const page, begin, end = "../../../docs/sandbox.md", "<!-- levels: written by TestTable -->\n", "<!-- end -->\n"
	if os.Geteuid() != 0 || mountedGroups().legacy["memory"] == "" && mountedGroups().unified == "" {
		t.Log("the table is about a machine with control groups and root; nothing was compared")
		return
	}
	names := []string{"namespaces", "no fresh /proc", "no control groups", "disk", "bare"}
	levels := map[string]sandbox.Isolation{}
	for i, o := range []Options{{}, {refused: refused{procfs: true}}, {refused: refused{groups: true}}, {Upper: UpperDisk}, {Bare: true, refused: refused{namespaces: true}}} {
		d := opener(o)(t)
		levels[names[i]] = d.Isolation()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	want := sandboxtest.Table(names, levels)
	text := readFile(t, page)
	before, rest, ok := strings.Cut(text, begin)
	got, after, also := strings.Cut(rest, end)
	if !ok || !also {
		t.Fatal("the page has no place for the table")
	}
	if os.Getenv(updateTable) != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/sandbox.md differs (%s=1 writes it):\n%s", updateTable, d)
	}
}

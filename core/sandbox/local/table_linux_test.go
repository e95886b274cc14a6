package local

import (
	"os"
	"testing"

	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/sandboxtest"
)

// The page on sandboxes says of each level what the driver says of itself.
func TestTable(t *testing.T) {
	if os.Geteuid() != 0 || mountedGroups().legacy["memory"] == "" && mountedGroups().unified == "" {
		t.Log("the table is about a machine with control groups and root; nothing was compared")
		return
	}
	levels := map[string]sandbox.Isolation{}
	for name, o := range map[string]Options{
		"namespaces": {}, "no fresh /proc": {refused: refused{procfs: true}}, "no control groups": {refused: refused{groups: true}},
		"disk": {Upper: UpperDisk}, "bare": {Bare: true, refused: refused{namespaces: true}},
	} {
		d := opener(o)(t)
		levels[name] = d.Isolation()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	sandboxtest.Table(t, "../../../docs/sandbox.md", levels)
}

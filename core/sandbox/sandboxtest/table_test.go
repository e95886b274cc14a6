package sandboxtest

import (
	"slices"
	"testing"
)

// Every attack is tried by an obligation that exists.
func TestAttacks(t *testing.T) {
	for _, a := range Attacks() {
		if !slices.ContainsFunc(obligations, func(o obligation) bool { return o.name == a.Test }) {
			t.Errorf("%s: no obligation %s", a.Name, a.Test)
		}
	}
}

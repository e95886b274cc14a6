package plugins_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// TestDocstringsInPython puts the conformance suite to the tutorial's skill in Python;
// that in Go has a test beside it.
func TestDocstringsInPython(t *testing.T) {
	python(t)
	examine(t, load(t, "docstrings-python"), sdktest.Options{
		Host: new(sdktest.Host), Config: []sdk.Pair{{Key: "words", Value: "3"}}, Tasks: 1,
	})
}

// TestOneChecker holds both skills to the same program.
func TestOneChecker(t *testing.T) {
	var programs [][]byte
	for _, dir := range []string{"docstrings", "docstrings-python"} {
		b, err := os.ReadFile(dir + "/check.py")
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, b)
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("docstrings and docstrings-python have different check.py")
	}
}

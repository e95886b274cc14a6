// Package checkout finds the sources of Valence that this program was made from, for
// those who build against them: skills in Go import the SDK, skills in Python install
// it.
package checkout

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
)

// Module is the module that the sources are.
const Module = "github.com/valence-rl/valence"

// Find gives the folder with the sources: the one that this program was compiled in,
// or that it lies in. It is "" if neither is there any more.
func Find() string {
	var start []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) { // else trimmed
		start = append(start, filepath.Dir(file))
	}
	if program, err := os.Executable(); err == nil {
		start = append(start, filepath.Dir(program))
	}
	for _, at := range start {
		for ; filepath.Dir(at) != at; at = filepath.Dir(at) {
			if Is(at) {
				return at
			}
		}
	}
	return ""
}

// Is tells whether dir is the folder with the sources.
func Is(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(text, []byte("module "+Module+"\n"))
}

// Python is the folder of the Python SDK in the sources, as pip takes it; "" if there
// are none.
func Python(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "sdk", "python")
}

package main

import (
	"os"
	"strings"
	"testing"
)

// TestReadme holds the README's listing to the program that is tested.
func TestReadme(t *testing.T) {
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(code)+"```") {
		t.Error("README.md does not show examples/plugins/count/main.go as it is")
	}
}

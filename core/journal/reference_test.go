package journal

import (
	"os"
	"strings"
	"testing"
)

func TestReferenceIsUpToDate(t *testing.T) {
	want, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(want, "| `clip_share` | number |") {
		t.Error("the reference lacks a field that exists")
	}
	got, err := os.ReadFile("../../docs/metrics.md")
	if err != nil || string(got) != want {
		t.Errorf("docs/metrics.md is not what the code says; run: valence config docs -w (%v)", err)
	}
}

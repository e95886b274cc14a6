//go:build unix

package process

import (
	"bytes"
	"os"
	"testing"
)

// TestDrain: what was written is there after drain, whether or not the pump has
// come to it.
func TestDrain(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	p := &pipe{file: r, to: &got}
	for _, text := range []string{"", "first\n", string(bytes.Repeat([]byte("x"), 10_000))} {
		got.Reset()
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		p.drain()
		if got.String() != text {
			t.Errorf("%d bytes of %d", got.Len(), len(text))
		}
	}
	got.Reset()
	if _, err := w.WriteString("last"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	p.pump()
	if got.String() != "last" {
		t.Errorf("%q", &got)
	}
	r.Close()
	p.drain() // after the end there is nothing to do
}

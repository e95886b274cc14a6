package transport

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestPrinted(t *testing.T) {
	var p Printed
	fmt.Fprint(&p, "first\n")
	for range 10_000 {
		fmt.Fprint(&p, "0123456789\n")
	}
	p.Write(bytes.Repeat([]byte{'x'}, 100_000))
	fmt.Fprint(&p, "\xff last")
	s := p.String()
	if !strings.HasPrefix(s, "first\n0123") || !strings.HasSuffix(s, "xx\uFFFD last") || !strings.Contains(s, "\n…\n") || len(s) > headSize+tailSize+16 {
		t.Errorf("%d bytes: %.40q", len(s), s)
	}
	p = Printed{}
	fmt.Fprint(&p, strings.Repeat("y", headSize+5))
	if s := p.String(); s != strings.Repeat("y", headSize+5) {
		t.Errorf("%d bytes kept of %d", len(s), headSize+5)
	}
}

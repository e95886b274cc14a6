package transport

import (
	"strings"
	"testing"
)

func TestFatal(t *testing.T) {
	for _, c := range []struct{ printed, want string }{
		{"", ""},
		{"all is well\nno panic: here\n", ""},
		{"hello\nfatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1", "all goroutines are asleep - deadlock!"},
		{"panic: elsewhere\n\ngoroutine 7", "panic: elsewhere"},
		{"fatal error: first\npanic: second", "first"},
		{"panic: cut", "panic: cut"},
	} {
		if got, ok := Fatal(c.printed); got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q, %v; want %q", c.printed, got, ok, c.want)
		}
	}
}

func FuzzFatal(f *testing.F) {
	f.Add("x\npanic: y\r\nz")
	f.Add("fatal error: ")
	f.Fuzz(func(t *testing.T, printed string) {
		line, ok := Fatal(printed)
		if strings.Contains(line, "\n") || strings.TrimPrefix(line, "panic: ") != "" && !ok {
			t.Errorf("%q: %q, %v", printed, line, ok)
		}
	})
}

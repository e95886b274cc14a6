package sdk

import "testing"

func TestCollects(t *testing.T) {
	for _, c := range []struct {
		globs []string
		path  string
		want  bool
	}{
		{[]string{"a.py"}, "a.py", true}, {[]string{"a.py"}, "x/a.py", false}, {[]string{"*.py"}, "a.py", true}, {[]string{"*.py"}, "x/a.py", false},
		{[]string{"x/*.py"}, "x/a.py", true}, {[]string{"x/**"}, "x/a.py", true}, {[]string{"x/**"}, "x/y/z", true}, {[]string{"x/**"}, "x", false},
		{[]string{"x/**"}, "xy/a", false}, {[]string{`a\*b`}, "a*b", true}, {[]string{`a\*b`}, "axb", false}, {[]string{"["}, "[", false},
		{[]string{"/"}, "a", false}, {[]string{"/"}, "", false}, {[]string{""}, "a", false},
		{[]string{"x/**", "b.py"}, "b.py", true}, {[]string{"x/**", "b.py"}, "c.py", false}, {nil, "anything/at all", true},
	} {
		if got := Collects(c.globs, c.path); got != c.want {
			t.Errorf("Collects(%q, %q) = %t", c.globs, c.path, got)
		}
	}
}

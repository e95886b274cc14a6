package grade

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPaths(t *testing.T) {
	tests := []struct {
		path                      string
		test, configures, guarded bool
	}{
		{path: "shop.py"},
		{path: "src/latest.py"},
		{path: "src/contest.py"},
		{path: "numpy/testing/tools.py"},
		{path: "test_shop.py", test: true, guarded: true},
		{path: "shop_test.go", test: true, guarded: true},
		{path: "pkg/tests/data.py", test: true, guarded: true},
		{path: "a/test/b.c", test: true, guarded: true},
		{path: "tests.py", test: true, guarded: true},
		{path: "a/__tests__/b.js", test: true, guarded: true},
		{path: "a/b.test.tsx", test: true, guarded: true},
		{path: "a/b.spec.ts", test: true, guarded: true},
		{path: "conftest.py", test: true, configures: true, guarded: true},
		{path: "a/sitecustomize.py", configures: true, guarded: true},
		{path: "usercustomize.py", configures: true, guarded: true},
		{path: "evil.pth", configures: true, guarded: true},
		{path: "pytest.ini", configures: true, guarded: true},
		{path: "setup.cfg", configures: true, guarded: true},
		{path: "tox.ini", configures: true, guarded: true},
		{path: "pyproject.toml", configures: true, guarded: true},
		{path: "a/__pycache__/shop.cpython-311.pyc", guarded: true},
		{path: "shop.pyc", guarded: true},
	}
	for _, tt := range tests {
		if got := IsTest(tt.path); got != tt.test {
			t.Errorf("IsTest(%s) = %v", tt.path, got)
		}
		if got := Configures(tt.path); got != tt.configures {
			t.Errorf("Configures(%s) = %v", tt.path, got)
		}
		if got := Protected(tt.path); got != tt.guarded {
			t.Errorf("Protected(%s) = %v", tt.path, got)
		}
	}
}

func TestIsSource(t *testing.T) {
	for _, tt := range []struct {
		language, path string
		want           bool
	}{
		{"python", "a/b.py", true}, {"Python", "b.pyx", true}, {"python", "README.md", false}, {"python", "Makefile", false}, {"python", "a.p", false},
		{"go", "a.go", true}, {"go", "go.mod", false}, {"typescript", "a.tsx", true}, {"cobol", "a.cbl", true}, {"cobol", "a.md", false}, {"", "LICENSE", false},
	} {
		if got := IsSource(tt.language, tt.path); got != tt.want {
			t.Errorf("IsSource(%q, %q) = %v", tt.language, tt.path, got)
		}
	}
}

// Exact matches the path that it was made of and no other.
func TestExact(t *testing.T) {
	p := rapid.StringMatching(`[ab*?\[\]\\é-]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := p.Draw(t, "a"), p.Draw(t, "b")
		got, err := path.Match(Exact(a), b)
		if err != nil || got != (a == b) {
			t.Fatalf("%q made of %q against %q: %v, error %v", Exact(a), a, b, got, err)
		}
	})
}

func TestNothingMatchesNoRelativePath(t *testing.T) {
	for _, p := range []string{"a", "a/b", ".", "é"} {
		if ok, err := path.Match(Nothing, p); ok || err != nil {
			t.Errorf("%q: %v, error %v", p, ok, err)
		}
	}
	if strings.HasSuffix(Nothing, "/**") {
		t.Error("ends in a glob for folders")
	}
}

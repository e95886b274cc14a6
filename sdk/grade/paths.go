package grade

import (
	"path"
	"strings"
)

// IsTest says whether a path is a test by the habits of its language: it lies in a
// folder named test, tests or __tests__, or its name says so.
func IsTest(p string) bool {
	dir, base := path.Split(p)
	for part := range strings.SplitSeq(dir, "/") {
		switch part {
		case "test", "tests", "__tests__":
			return true
		}
	}
	stem, _, _ := strings.Cut(base, ".")
	switch {
	case stem == "test" || stem == "tests" || stem == "conftest":
		return true
	case strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test"):
		return true
	}
	return strings.Contains(base, ".test.") || strings.Contains(base, ".spec.")
}

// Configures says whether a file steers a test runner or an interpreter without
// being imported by name: what an agent could plant to make tests pass.
func Configures(p string) bool {
	base := path.Base(p)
	switch base {
	case "conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.py", "pyvenv.cfg",
		"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "setup.cfg", "tox.ini", "pyproject.toml", "noxfile.py", ".coveragerc",
		"jest.config.js", "jest.config.ts", "vitest.config.js", "vitest.config.ts", "package.json", "go.work":
		return true
	}
	return strings.HasSuffix(base, ".pth")
}

// Protected says whether an evaluator must take a path from the task and never
// from the agent: tests, what configures their runner, and compiled caches.
func Protected(p string) bool {
	return IsTest(p) || Configures(p) || compiled(p)
}

// compiled names what an interpreter would load instead of its source.
func compiled(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "__pycache__" {
			return true
		}
	}
	switch path.Ext(p) {
	case ".pyc", ".pyo":
		return true
	}
	return false
}

// IsSource says whether a path is a source file of a language, tests included. Of
// a language that is not known here, everything but prose and data is source.
func IsSource(language, p string) bool {
	ext := path.Ext(p)
	if of := extensions(language); of != "" {
		return ext != "" && strings.Contains(of, ext+" ")
	}
	switch ext {
	case "", ".md", ".rst", ".txt", ".json", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".lock", ".csv", ".svg", ".png", ".html", ".css", ".po":
		return false
	}
	return true
}

// extensions lists a language's file extensions, a blank after each.
func extensions(language string) string {
	switch strings.ToLower(language) {
	case "python":
		return ".py .pyi .pyx .pxd "
	case "go":
		return ".go "
	case "javascript", "typescript":
		return ".js .jsx .mjs .cjs .ts .tsx "
	case "rust":
		return ".rs "
	case "java":
		return ".java "
	case "c", "c++", "cpp":
		return ".c .h .cc .cpp .cxx .hh .hpp .hxx "
	case "ruby":
		return ".rb "
	}
	return ""
}

// Exact is the glob that matches one path only.
func Exact(p string) string {
	if !strings.ContainsAny(p, `*?[\`) {
		return p
	}
	var b strings.Builder
	for _, c := range p {
		if strings.ContainsRune(`*?[\`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Nothing is a glob that no path in a workspace matches, for skills whose output
// is the final message.
const Nothing = "/"

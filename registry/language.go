package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Languages of a folder's sources.
const (
	Go             = "go"
	Python         = "python"
	Rust           = "rust"
	C              = "c"
	AssemblyScript = "assemblyscript"
)

// language is how a folder of its sources becomes a plugin.
type language struct {
	transports []string // that it can have; the first is the default
	compiler   string   // in words
	// The rest is for those that one fixed command makes into a module.
	tools   []string // programs that must be there; the first is asked for its version
	version []string // arguments
	install string   // what to do where they are not
	// command gives the arguments of the first tool, which runs in dir, a copy of
	// the sources, and writes into the folder out.
	command   func(dir, out string) ([]string, error)
	artefact  string         // pattern of the module below out
	derived   []string       // patterns of what tools make, no part of the sources
	borrowed  string         // of those, one that the command needs
	absent    *regexp.Regexp // how the tool says that a part of it is missing
	complaint *regexp.Regexp
}

var languages = map[string]language{
	Go: {transports: []string{WASM, Process}, compiler: "Go tool chain"},
	Python: {
		transports: []string{Process},
		tools:      []string{"python3"},
		install:    "install Python 3.9 or newer, so that `python3` is on the PATH, or make a .venv in the folder",
		derived:    []string{"__pycache__", "*.pyc"},
	},
	Rust: {
		transports: []string{WASM},
		compiler:   "Rust compiler for WASM",
		tools:      []string{"cargo"},
		version:    []string{"--version", "--verbose"},
		install:    "install Rust (https://rustup.rs) and `rustup target add wasm32-unknown-unknown`, or name a built .wasm file",
		command: func(dir, out string) ([]string, error) {
			return []string{"build", "--quiet", "--release", "--lib", "--target", "wasm32-unknown-unknown",
				"--message-format", "short", "--color", "never", "--target-dir", out}, nil
		},
		artefact:  "wasm32-unknown-unknown/release/*.wasm",
		derived:   []string{"target"},
		absent:    regexp.MustCompile("E0463.*can't find crate for `(core|std)`"),
		complaint: regexp.MustCompile(`^([^\s:][^:]*\.rs):(\d+):(\d+): (error.*)$`),
	},
	C: {
		transports: []string{WASM},
		compiler:   "C compiler for WASM",
		tools:      []string{"clang", "wasm-ld"},
		version:    []string{"--version"},
		install:    "install clang and lld with WASM support, e.g. apt install clang lld, or name a built .wasm file",
		command: func(dir, out string) ([]string, error) {
			sources, err := filepath.Glob(filepath.Join(dir, "*.c"))
			if err != nil || len(sources) == 0 {
				return nil, &toolError{err: errors.Join(err, errors.New("no .c file in the folder"))}
			}
			args := []string{"--target=wasm32", "-std=c11", "-O2", "-ffreestanding", "-nostdlib", "-fno-ident",
				"-Wl,--no-entry", "-Wl,--strip-all", "-fno-color-diagnostics", "-o", filepath.Join(out, "skill.wasm")}
			for _, s := range sources {
				name := filepath.Base(s)
				if strings.HasPrefix(name, ".") {
					continue // hidden, and not copied
				}
				if !sourceForm.MatchString(name) {
					return nil, &toolError{err: fmt.Errorf("a source is called %q; want letters, digits, _, dots and hyphens, the last two not first", name)}
				}
				args = append(args, name)
			}
			return args, nil
		},
		artefact:  "skill.wasm",
		complaint: regexp.MustCompile(`^([^\s:][^:]*\.[ch]):(\d+):(\d+): (?:fatal )?error: (.*)$`),
	},
	AssemblyScript: {
		transports: []string{WASM},
		compiler:   "AssemblyScript compiler",
		tools:      []string{"npx"},
		version:    []string{"--no-install", "asc", "--version"},
		install:    "install Node.js and run `npm install` in the folder, whose package.json names assemblyscript, or name a built .wasm file",
		command: func(dir, out string) ([]string, error) {
			return []string{"--no-install", "asc", "assembly/index.ts", "--optimize", "--outFile", filepath.Join(out, "skill.wasm")}, nil
		},
		artefact:  "skill.wasm",
		derived:   []string{"build", "node_modules"},
		borrowed:  "node_modules",
		complaint: regexp.MustCompile(`^\s*(?:│|└)?.*in ([^\s(]+\.ts)\((\d+),(\d+)\)()$`),
	},
}

// sourceForm is what a C source may be called: clang takes -name for an option, and
// @name, also with a folder before it, for a file of options.
var sourceForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func languageNames() []string { return sortedKeys(languages) }

// foreignCompiler makes a module by the fixed command of a language. What is hashed
// is copied, and the copy is compiled.
type foreignCompiler struct {
	*folder
	language
	program string
	files   []file
}

func (f *folder) foreignCompiler() (*foreignCompiler, error) {
	l := languages[f.manifest.Language]
	c := &foreignCompiler{folder: f, language: l}
	for i, name := range l.tools {
		program, err := exec.LookPath(name)
		if err != nil {
			return nil, f.noToolChain(l.install, "looked for "+quote(name)+": "+err.Error())
		}
		if i == 0 {
			c.program = program
		}
	}
	if l.borrowed != "" {
		if _, err := os.Stat(filepath.Join(f.dir, l.borrowed)); err != nil {
			return nil, f.noToolChain(l.install, "looked for "+quote(filepath.Join(f.ref, l.borrowed))+": "+cause(err))
		}
	}
	var err error
	c.files, err = files(f.dir, l.derived)
	return c, err
}

// environment keeps the user's settings of other builds out.
func (c *foreignCompiler) environment(dir string) []string {
	return []string{"RUSTFLAGS=", "CARGO_ENCODED_RUSTFLAGS=--remap-path-prefix=" + dir + "=.", "CARGO_TERM_COLOR=never", "NO_COLOR=1", "SOURCE_DATE_EPOCH=0"}
}

func (c *foreignCompiler) key(ctx context.Context) (string, error) {
	version, err := run(ctx, c.dir, nil, c.program, c.version...)
	var e *toolError
	if errors.As(err, &e) {
		return "", c.noToolChain(c.install, strings.Split(strings.TrimSpace(e.text), "\n")...)
	} else if err != nil {
		return "", err
	}
	args, err := c.command(c.dir, "out")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %q\n", c.manifest.Language, version, args)
	for _, f := range c.files {
		f.addTo(h)
	}
	return hex.EncodeToString(h.Sum(nil))[:40], nil
}

func (c *foreignCompiler) compile(ctx context.Context, tmp string) ([]byte, error) {
	dir, out := filepath.Join(tmp, "sources"), filepath.Join(tmp, "out")
	for _, f := range c.files {
		if err := replace(filepath.Join(dir, f.name), f.text, 0o644); err != nil {
			return nil, err
		}
	}
	if c.borrowed != "" {
		if err := os.Symlink(filepath.Join(c.dir, c.borrowed), filepath.Join(dir, c.borrowed)); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return nil, err
	}
	args, err := c.command(dir, out)
	if err != nil {
		return nil, err
	}
	if _, err := run(ctx, dir, c.environment(dir), c.program, args...); err != nil {
		return nil, err
	}
	made, err := filepath.Glob(filepath.Join(out, c.artefact))
	if err != nil || len(made) != 1 {
		return nil, &toolError{err: errors.Join(err, fmt.Errorf("%s made %d modules, want one", c.tools[0], len(made)))}
	}
	return os.ReadFile(made[0])
}

func (c *foreignCompiler) explain(err error) error {
	var e *toolError
	if errors.As(err, &e) && c.absent != nil && c.absent.MatchString(e.text) {
		return c.noToolChain(c.install, strings.Split(strings.TrimSpace(e.text), "\n")...)
	}
	return c.folder.explain(err, c.complaint)
}

package registry

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// flags build a module that depends on the sources alone: no paths, no version
// control, no symbols.
var flags = []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-buildmode=c-shared"}

// toolchain is the go command, set to build plugins from one folder.
type toolchain struct {
	path string
	dir  string
}

func (o Options) toolchain(dir, ref string) (*toolchain, error) {
	name := o.Go
	if name == "" {
		name = "go"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P011",
			Summary: "plugin " + quote(ref) + " is a folder of sources, and there is no Go tool chain to build it",
			Hint:    "install Go (https://go.dev/dl) or name a built .wasm file",
			Detail:  []string{"looked for " + quote(name) + ": " + err.Error()}}
	}
	return &toolchain{path, dir}, nil
}

// run gives the standard output, or an error with the standard error.
func (t *toolchain) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Dir = t.dir
	// GOFLAGS of the user would change the module and so its digest.
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWASM=", "GOEXPERIMENT=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &toolError{text: errs.String(), err: err}
	}
	return out.Bytes(), nil
}

// toolError is what the go command complained of.
type toolError struct {
	text string
	err  error
}

func (e *toolError) Error() string { return e.err.Error() + ": " + strings.TrimSpace(e.text) }

func fromFolder(ctx context.Context, dir, ref string, o Options) (*Module, error) {
	manifest, err := ReadManifest(dir, ref)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	t, err := o.toolchain(dir, ref)
	if err != nil {
		return nil, err
	}
	key, err := t.key(ctx)
	if err != nil {
		return nil, t.explain(err, dir, ref)
	}
	cache := o.Cache
	if cache == "" {
		cache = DefaultCache()
	}
	m := &Module{Manifest: *manifest, Path: filepath.Join(cache, key+".wasm")}
	if m.Wasm, err = os.ReadFile(m.Path); err == nil {
		return m, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, filepath.Join(cache, key+".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if m.Wasm, err = os.ReadFile(m.Path); err == nil {
		return m, nil // somebody else built it meanwhile
	}
	if o.Log != nil {
		o.Log.Info("building plugin", "plugin", manifest.Name, "version", manifest.Version, "from", ref)
	}
	if m.Wasm, err = t.build(ctx, cache, key); err != nil {
		return nil, t.explain(err, dir, ref)
	}
	return m, nil
}

// build compiles the folder and puts the module, with its manifest inside, into
// the cache under key. It appears whole or not at all.
func (t *toolchain) build(ctx context.Context, cache, key string) ([]byte, error) {
	tmp, err := os.MkdirTemp(cache, key+".*.tmp")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "skill.wasm")
	if _, err := t.run(ctx, append(append([]string{"build"}, flags...), "-o", out, ".")...); err != nil {
		return nil, err
	}
	code, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(t.dir, ManifestFile))
	if err != nil {
		return nil, err
	}
	code = WithSection(code, ManifestSection, manifest)
	if err := os.WriteFile(out, code, 0o644); err != nil {
		return nil, err
	}
	return code, os.Rename(out, filepath.Join(cache, key+".wasm"))
}

// complaint is how the compiler reports: file:line:column: text.
var complaint = regexp.MustCompile(`^(?:vet: )?([^\s:][^:]*\.go):(\d+)(?::(\d+))?: (.*)$`)

// explain turns the go command's complaint into a diagnostic that points into the
// author's file.
func (t *toolchain) explain(err error, dir, ref string) error {
	var e *toolError
	if !errors.As(err, &e) {
		return err
	}
	d := &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P010", Summary: "plugin " + quote(ref) + " does not compile"}
	for line := range strings.Lines(strings.TrimSpace(e.text)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "# ") {
			continue // the package that the following lines are about
		}
		m := complaint.FindStringSubmatch(line)
		if m == nil {
			d.Detail = append(d.Detail, line)
			continue
		}
		file := m[1]
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		shown := file
		if rel, err := filepath.Rel(dir, file); err == nil {
			shown = filepath.Join(ref, rel)
		}
		if d.Source.File != "" {
			d.Detail = append(d.Detail, strings.Replace(line, m[1], shown, 1))
			continue
		}
		d.Summary += ": " + m[4]
		d.Source = source(file, shown, m[2], m[3])
	}
	if len(d.Detail) == 0 && d.Source.File == "" {
		d.Detail = []string{e.err.Error()}
	}
	return d
}

// source reads the line that a complaint points to.
func source(file, shown, line, column string) diag.Source {
	s := diag.Source{File: shown, Column: 1, Width: 1}
	s.Line, _ = strconv.Atoi(line)
	if c, err := strconv.Atoi(column); err == nil {
		s.Column = c
	}
	if text, err := os.ReadFile(file); err == nil {
		lines := strings.Split(string(text), "\n")
		if s.Line >= 1 && s.Line <= len(lines) {
			s.Text = strings.TrimRight(lines[s.Line-1], "\r")
		}
	}
	return s
}

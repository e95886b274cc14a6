package registry

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/diag"
)

// compiler turns a folder into one file.
type compiler interface {
	// key names the outcome by everything that goes into it, and compiles nothing.
	key(ctx context.Context) (string, error)
	// compile gives the outcome; tmp is an empty folder to work in, which goes away.
	compile(ctx context.Context, tmp string) ([]byte, error)
	// explain makes an error of the two into a diagnostic.
	explain(err error) error
}

// toolError is what a compiler complained of.
type toolError struct {
	text string
	err  error
}

func (e *toolError) Error() string { return e.err.Error() + ": " + strings.TrimSpace(e.text) }

// run gives a tool's standard output, or a toolError with what it said. The end of
// ctx kills the tool.
func run(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second // for what the tool has started
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &toolError{text: errs.String() + out.String(), err: err}
	}
	return out.Bytes(), nil
}

// noToolChain says that nothing here can build the folder.
func (f *folder) noToolChain(install string, detail ...string) error {
	return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P011",
		Summary: "plugin " + quote(f.ref) + " is a folder of sources, and there is no " + languages[f.manifest.Language].compiler + " to build it",
		Hint:    install, Detail: detail}
}

// shownLines is how much of a compiler's complaint is shown.
const shownLines = 40

// explain turns a tool's complaint into a diagnostic that points into the author's
// file. complaint matches a line that has file, line, column and text.
func (f *folder) explain(err error, complaint *regexp.Regexp) error {
	var e *toolError
	if !errors.As(err, &e) {
		return err
	}
	d := &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P010", Summary: "plugin " + quote(f.ref) + " does not compile"}
	for line := range strings.Lines(strings.TrimSpace(e.text)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "# ") {
			continue // the package that the following lines are about
		}
		if len(d.Detail) == shownLines {
			d.Detail = append(d.Detail, "…")
			break
		}
		m := complaint.FindStringSubmatch(line)
		if m == nil {
			d.Detail = append(d.Detail, line)
			continue
		}
		file := m[1]
		if !filepath.IsAbs(file) {
			file = filepath.Join(f.dir, file)
		}
		shown := file
		if rel, err := filepath.Rel(f.dir, file); err == nil {
			shown = filepath.Join(f.ref, rel)
		}
		if d.Source.File != "" {
			d.Detail = append(d.Detail, strings.Replace(line, m[1], shown, 1))
			continue
		}
		if m[4] != "" {
			d.Summary += ": " + m[4]
		}
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

package main

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// streamVersion is the version of the JSON lines that -o jsonl writes.
const streamVersion = 1

// printer writes results in the form that -o asks for. It is safe for concurrent
// use.
type printer struct {
	app      *app
	mu       sync.Mutex
	opened   bool
	answered bool // there is a result
}

// result is what a verb found out: its JSON is the value itself.
type result interface {
	// table writes it for a person.
	table(w io.Writer, p palette)
}

// result writes the verb's one result: a table, one JSON value, or the closing
// "summary" line.
func (p *printer) result(r result) error {
	p.answered = true
	switch p.app.output {
	case "json":
		enc := json.NewEncoder(p.app.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	case "jsonl":
		return p.line("summary", r)
	}
	r.table(p.app.stdout, p.app.paint(p.app.stdout))
	return nil
}

// failure writes why there is no result, as {"type": "exit_error", …}. A verb that
// fails over its own result, such as doctor, has said it in JSON already.
func (p *printer) failure(v any) {
	switch {
	case p.app.output == "jsonl", p.app.output == "json" && !p.answered:
		p.line("exit_error", v)
	}
}

// event writes a line while the verb is at work; only -o jsonl shows it.
func (p *printer) event(kind string, v any) error {
	if p.app.output != "jsonl" {
		return nil
	}
	return p.line(kind, v)
}

// line writes {"type": kind, …}; the first line names the version.
func (p *printer) line(kind string, v any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opened && p.app.output == "jsonl" {
		p.opened = true
		if err := p.write("version", map[string]any{"stream": streamVersion, "valence": version}); err != nil {
			return err
		}
	}
	return p.write(kind, v)
}

func (p *printer) write(kind string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	head := `{"type":"` + kind + `"`
	if len(b) > 2 && b[0] == '{' {
		b = append([]byte(head+","), b[1:]...)
	} else {
		b = append(append([]byte(head+`,"value":`), b...), '}')
	}
	_, err = p.app.stdout.Write(append(b, '\n'))
	return err
}

// grid is a table for people: the first column is left-aligned, the others right.
type grid struct {
	head []string
	rows [][]string
	left map[int]bool // further columns that are left-aligned
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// lines renders the grid without trailing blanks.
func (g *grid) lines() []string {
	all := g.rows
	if g.head != nil {
		all = append([][]string{g.head}, g.rows...)
	}
	var width []int
	for _, r := range all {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	out := make([]string, 0, len(all))
	for _, r := range all {
		var b strings.Builder
		for i, c := range r {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i == 0 || g.left[i] {
				b.WriteString(c + pad)
			} else {
				b.WriteString(pad + c)
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

func (g *grid) write(w io.Writer, p palette) {
	for i, l := range g.lines() {
		if i == 0 && g.head != nil {
			l = p.in(p.bold, l)
		}
		io.WriteString(w, l+"\n")
	}
}

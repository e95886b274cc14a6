package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/valence-rl/valence/core/diag"
)

// maxSize bounds a configuration file.
const maxSize = 4 << 20

// maxProblems bounds what one check reports.
const maxProblems = 50

// read parses a document into a tree. Problems of syntax and of structure are
// appended to l; after a line that cannot be read, reading goes on with the next.
func read(doc *document, l *diag.List) *node {
	var root *node
	data := bytes.Clone(doc.data)
	for try := 0; ; try++ {
		root = newTable(span{doc: doc})
		var structure diag.List
		at, msg := parse(doc, data, root, &structure)
		if msg == "" {
			*l = append(*l, structure...)
			break
		}
		*l = append(*l, syntax(doc, at, msg))
		from := bytes.LastIndexByte(data[:at], '\n') + 1
		to := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			to = at + i
		}
		if try == 10 || len(bytes.TrimSpace(data[from:to])) == 0 || spansLines(msg) {
			*l = append(*l, structure...)
			break
		}
		for i := from; i < to; i++ {
			data[i] = ' '
		}
	}
	if len(*l) == 0 {
		// What our own tree does not look at (dates, underscores in numbers,
		// invalid UTF-8) the library's decoder does.
		var any map[string]any
		if err := toml.Unmarshal(doc.data, &any); err != nil {
			at := 0
			var de *toml.DecodeError
			if errors.As(err, &de) {
				row, col := de.Position()
				at = offset(doc.data, row, col)
			}
			*l = append(*l, syntax(doc, at, strings.TrimPrefix(err.Error(), "toml: ")))
		}
	}
	return root
}

// spansLines tells whether the syntax error is about something that may go on
// over several lines, after which guessing where to go on would mislead.
func spansLines(msg string) bool {
	for _, w := range []string{"incomplete", "terminated", "multiline", "eof", "array"} {
		if strings.Contains(msg, w) {
			return true
		}
	}
	return false
}

func offset(data []byte, row, col int) int {
	at := 0
	for ; row > 1; row-- {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return len(data)
		}
		at += i + 1
	}
	return min(len(data), at+max(0, col-1))
}

func syntax(doc *document, at int, msg string) *diag.Diagnostic {
	d := &diag.Diagnostic{Kind: diag.KindConfig, Code: "C002", Summary: "not TOML: " + msg, Source: span{doc, at, at + 1}.source()}
	line, col := d.Source.Text, d.Source.Column-1
	_, value, found := strings.Cut(line, "=")
	value = strings.TrimSpace(value)
	switch {
	case !found || value == "":
	case col > 0 && col < len(line) && isDigit(line[col-1]) && isLetter(line[col]):
		d.Hint = fmt.Sprintf("durations and sizes are quoted: %q", value)
	case isLetter(value[0]) && strings.IndexByte(`"'[{`, value[0]) < 0:
		d.Hint = fmt.Sprintf("text is quoted: %q", value)
	}
	return d
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// parse fills root. It stops at the first error of syntax and gives its place;
// msg "" means none.
func parse(doc *document, data []byte, root *node, l *diag.List) (at int, msg string) {
	var p unstable.Parser
	p.Reset(data)
	b := builder{doc: doc, p: &p, l: l}
	current := root
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			current = b.header(root, e)
		case unstable.KeyValue:
			b.keyValue(current, e)
		}
	}
	if err := p.Error(); err != nil {
		var pe *unstable.ParserError
		if errors.As(err, &pe) {
			at = len(data)
			if len(pe.Highlight) > 0 {
				at = int(p.Range(pe.Highlight).Offset)
			}
			return min(at, len(data)), pe.Message
		}
		return 0, err.Error()
	}
	return 0, ""
}

type builder struct {
	doc *document
	p   *unstable.Parser
	l   *diag.List
}

func (b *builder) report(at span, code, summary, hint string, detail ...string) {
	*b.l = append(*b.l, &diag.Diagnostic{Kind: diag.KindConfig, Code: code, Summary: summary, Source: at.source(), Hint: hint, Detail: detail})
}

type keyPart struct {
	name string
	at   span
}

func (b *builder) keys(it unstable.Iterator) []keyPart {
	var out []keyPart
	for it.Next() {
		n := it.Node()
		out = append(out, keyPart{string(n.Data), b.span(n.Raw)})
	}
	return out
}

func (b *builder) span(r unstable.Range) span {
	return span{b.doc, int(r.Offset), int(r.Offset + r.Length)}
}

// header opens the table of a [header] or a [[header]]. After a report the table
// that is opened hangs in the air, so that its keys are not reported too.
func (b *builder) header(root *node, e *unstable.Node) *node {
	keys := b.keys(e.Key())
	at := root
	for i, k := range keys {
		last := i == len(keys)-1
		next, ok := at.children[k.name]
		switch {
		case !last:
			if !ok {
				next = newTable(k.at)
				at.add(k.name, next)
			}
			if next.kind == kindTables {
				next = next.items[len(next.items)-1]
			}
			if next.kind != kindTable || next.closed {
				b.report(k.at, "C004", fmt.Sprintf("%q is %s already and cannot be a section", k.name, next.kind), "", previously(next))
				return newTable(k.at)
			}
		case e.Kind == unstable.ArrayTable:
			if !ok {
				next = &node{kind: kindTables, key: k.at, val: k.at}
				at.add(k.name, next)
			}
			if next.kind != kindTables {
				b.report(k.at, "C004", fmt.Sprintf("%q is %s already and cannot be repeated", k.name, next.kind), "", previously(next))
				return newTable(k.at)
			}
			item := newTable(k.at)
			item.header = true
			next.items = append(next.items, item)
			return item
		default:
			if !ok {
				next = newTable(k.at)
				at.add(k.name, next)
			}
			switch {
			case next.kind == kindTable && next.header:
				b.report(k.at, "C003", fmt.Sprintf("section [%s] is there twice", pathOf(keys)), "put its keys together", previously(next))
				return newTable(k.at)
			case next.kind != kindTable || next.closed:
				b.report(k.at, "C004", fmt.Sprintf("%q is %s already and cannot be a section", k.name, next.kind), "", previously(next))
				return newTable(k.at)
			}
			next.header, next.key, next.val = true, k.at, k.at
		}
		at = next
	}
	return at
}

func pathOf(keys []keyPart) string {
	s := make([]string, len(keys))
	for i, k := range keys {
		s[i] = k.name
	}
	return strings.Join(s, ".")
}

func previously(n *node) string {
	src := n.key.source()
	return fmt.Sprintf("it was first met at %s:%d", src.File, src.Line)
}

func (b *builder) keyValue(at *node, e *unstable.Node) {
	keys := b.keys(e.Key())
	for i, k := range keys {
		next, ok := at.children[k.name]
		if i == len(keys)-1 {
			if ok {
				b.report(k.at, "C003", fmt.Sprintf("key %q is there twice", k.name), "remove one", previously(next))
				return
			}
			v := b.value(e.Value(), b.valueSpan(k.at, e))
			v.key = k.at
			at.add(k.name, v)
			return
		}
		if !ok {
			next = newTable(k.at)
			next.closed = true
			at.add(k.name, next)
		}
		if next.kind != kindTable {
			b.report(k.at, "C004", fmt.Sprintf("%q is %s already and has no keys", k.name, next.kind), "", previously(next))
			return
		}
		at = next
	}
}

// valueSpan is what stands behind the equals sign.
func (b *builder) valueSpan(key span, e *unstable.Node) span {
	raw := b.span(e.Raw)
	data := b.p.Data()
	start := key.end
	for start < raw.end && (data[start] == ' ' || data[start] == '\t' || data[start] == '=') {
		start++
	}
	return span{b.doc, start, max(start, raw.end)}
}

func (b *builder) value(n *unstable.Node, at span) *node {
	v := &node{val: at, text: string(n.Data)}
	switch n.Kind {
	case unstable.String:
		v.kind = kindString
	case unstable.Bool:
		v.kind = kindBool
	case unstable.Integer:
		v.kind = kindInteger
	case unstable.Float:
		v.kind = kindFloat
	case unstable.Array:
		v.kind = kindArray
		for it := n.Children(); it.Next(); {
			c := it.Node()
			where := at
			switch c.Kind {
			case unstable.Comment:
				continue
			case unstable.String, unstable.Integer, unstable.Float:
				where = b.span(c.Raw)
			case unstable.Bool:
				where = b.span(b.p.Range(c.Data))
			}
			v.items = append(v.items, b.value(c, where))
		}
	case unstable.InlineTable:
		v.kind, v.closed, v.children = kindTable, true, map[string]*node{}
		for it := n.Children(); it.Next(); {
			b.keyValue(v, it.Node())
		}
	default:
		v.kind = kindTime
	}
	return v
}

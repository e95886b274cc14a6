package config

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/diag"
)

// nodeKind is what a TOML value is.
type nodeKind int

const (
	kindTable  nodeKind = iota
	kindTables          // an array of tables, [[key]]
	kindArray
	kindString
	kindBool
	kindInteger
	kindFloat
	kindTime
)

func (k nodeKind) String() string {
	return [...]string{"a table", "an array of tables", "an array", "a string", "true or false", "an integer", "a number", "a date or time"}[k]
}

// node is a TOML value with the places of its key and of itself.
type node struct {
	kind     nodeKind
	text     string // of a string: its content; of other scalars: as written
	key, val span
	items    []*node          // of arrays
	order    []string         // of tables: keys as they were met
	children map[string]*node // of tables
	header   bool             // a table with a [header] of its own
	closed   bool             // an inline table, or one made by dotted keys: no header may extend it
}

func newTable(at span) *node {
	return &node{kind: kindTable, key: at, val: at, children: map[string]*node{}}
}

func (n *node) add(key string, c *node) {
	if _, ok := n.children[key]; !ok {
		n.order = append(n.order, key)
	}
	n.children[key] = c
}

// document is a text that spans point into: a file, or one --set.
type document struct {
	name string
	data []byte
	flag bool // a --set: one line, no line number
}

// span is a part of a document.
type span struct {
	doc        *document
	start, end int
}

// source turns a span into what a diagnostic shows.
func (s span) source() diag.Source {
	if s.doc == nil {
		return diag.Source{}
	}
	data := s.doc.data
	start := min(max(0, s.start), len(data))
	from := bytes.LastIndexByte(data[:start], '\n') + 1
	to := len(data)
	if i := bytes.IndexByte(data[from:], '\n'); i >= 0 {
		to = from + i
	}
	line := strings.ToValidUTF8(strings.TrimRight(string(data[from:to]), "\r"), "?")
	src := diag.Source{File: s.doc.name, Text: line, Column: start - from + 1, Width: 1}
	if !s.doc.flag {
		src.Line = 1 + bytes.Count(data[:from], []byte{'\n'})
	}
	if end := min(s.end, to); end > start {
		src.Width = utf8.RuneCount(data[start:end])
	}
	if src.Width > 1 && src.Column+src.Width > len(line)+1 {
		src.Width = max(1, len(line)+1-src.Column)
	}
	return src
}

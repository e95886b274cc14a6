package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/valence-rl/valence/core/diag"
)

// document is a TOML file that knows its keys, and what is wrong with it.
type document struct {
	file string // as it is called in diagnostics
	text []byte
	// accepts lists the keys of a table, by its path; nil: any.
	accepts func(path []string) []string
	list    diag.List
	lines   []string                 // of the text
	places  map[string][]diag.Source // see where
}

// decode fills v, finds the place of every value, and reports what is not TOML, of
// another type, or unknown. It tells whether v can be looked at.
func (d *document) decode(v any) bool {
	err := unmarshal(d.text, v)
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &bad):
		code, what := "P002", "not TOML"
		if d.parses() {
			code, what = "P004", "wrong type"
		}
		line, column := bad.Position()
		d.add(code, what+": "+strings.TrimPrefix(bad.Error(), "toml: "), d.at(line, column, 1), "")
		return false
	case err != nil:
		d.add("P002", "not TOML: "+err.Error(), diag.Source{File: d.file}, "")
		return false
	}
	d.locate()
	return true
}

// unmarshal decodes TOML. The decoder panics over some texts that are none, such as
// +A where a float is wanted, and files come from strangers.
func unmarshal(text []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return toml.Unmarshal(text, v)
}

// err is everything that was reported, in source order, or nil.
func (d *document) err() error {
	slices.SortStableFunc(d.list, func(a, b *diag.Diagnostic) int {
		return cmp.Or(a.Source.Line-b.Source.Line, a.Source.Column-b.Source.Column, strings.Compare(a.Summary, b.Summary))
	})
	return d.list.Err()
}

func (d *document) add(code, summary string, at diag.Source, hint string, detail ...string) {
	d.list = append(d.list, &diag.Diagnostic{Kind: diag.KindPlugin, Code: code, Summary: summary, Source: at, Hint: hint, Detail: detail})
}

func (d *document) unknown(path []string, at diag.Source) {
	table, key := path[:len(path)-1], path[len(path)-1]
	name := d.file[strings.LastIndexByte(d.file, '/')+1:]
	if n := len(table); n > 0 && table[n-1] != "" && strings.Trim(table[n-1], "0123456789") == "" { // one of several
		name = "[[" + strings.Join(table[:n-1], ".") + "]]"
	} else if n > 0 {
		name = "[" + strings.Join(table, ".") + "]"
	}
	accepted := d.accepts(table)
	d.add("P003", "unknown key "+quote(key), at, suggest(key, accepted), name+" accepts: "+strings.Join(accepted, ", "))
}

// missing reports that a table lacks a key.
func (d *document) missing(path string, at diag.Source, example string) {
	d.add("P005", "key "+quote(path[strings.LastIndexByte(path, '.')+1:])+" is missing", at, "add "+example)
}

// where is the place of a value, by its path ("roles", "config.partial.type",
// "plugin.0.ref"), and behind it those of the elements if it is a list. A path that
// leads to a table has the place of its header. nil: it is not there.
func (d *document) where(path string) []diag.Source { return d.places[path] }

// at is the place of width bytes at line and column, which count from 1.
func (d *document) at(line, column, width int) diag.Source {
	s := diag.Source{File: d.file, Line: line, Column: column, Width: width}
	if d.lines == nil {
		d.lines = strings.Split(string(d.text), "\n")
	}
	if line >= 1 && line <= len(d.lines) {
		s.Text = strings.TrimRight(d.lines[line-1], "\r")
	}
	return s
}

// parses tells whether the text is TOML, whatever its values are.
func (d *document) parses() bool {
	var any map[string]any
	return unmarshal(d.text, &any) == nil
}

// locate finds the place of every value, and reports the keys that are not accepted;
// the decoder would pass over them, or take them in any case.
func (d *document) locate() {
	d.places = map[string][]diag.Source{}
	count := map[string]int{}
	var table []string
	p := &unstable.Parser{}
	p.Reset(d.text)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table:
			path, at := d.path(p, e.Key(), nil)
			table = path
			d.places[strings.Join(path, ".")] = []diag.Source{at}
		case unstable.ArrayTable:
			path, at := d.path(p, e.Key(), nil)
			name := strings.Join(path, ".")
			table = append(path, fmt.Sprint(count[name]))
			count[name]++
			d.places[strings.Join(table, ".")] = []diag.Source{at}
		case unstable.KeyValue:
			d.value(p, e, table)
		}
	}
}

// path reads the parts of a key below a table, and reports the first that is not
// accepted there.
func (d *document) path(p *unstable.Parser, key unstable.Iterator, table []string) (path []string, at diag.Source) {
	path = slices.Clone(table)
	fine := true
	for key.Next() {
		n := key.Node()
		at = d.place(p, n)
		accepted := d.accepts(path)
		path = append(path, string(n.Data))
		if fine && accepted != nil && !slices.Contains(accepted, string(n.Data)) {
			fine = false
			d.unknown(path, at)
		}
	}
	return path, at
}

func (d *document) value(p *unstable.Parser, e *unstable.Node, table []string) {
	path, key := d.path(p, e.Key(), table)
	place := func(n *unstable.Node) diag.Source {
		if n.Raw.Length == 0 {
			return key // the parser keeps no place for some kinds of value
		}
		return d.place(p, n)
	}
	v := e.Value()
	at := []diag.Source{place(v)}
	within := func(n *unstable.Node, path []string) {
		for c := n.Children(); n.Kind == unstable.InlineTable && c.Next(); {
			d.value(p, c.Node(), path)
		}
	}
	if v.Kind == unstable.Array {
		for c := v.Children(); c.Next(); {
			within(c.Node(), append(slices.Clone(path), fmt.Sprint(len(at)-1)))
			at = append(at, place(c.Node()))
		}
	}
	within(v, path)
	d.places[strings.Join(path, ".")] = at
}

func (d *document) place(p *unstable.Parser, n *unstable.Node) diag.Source {
	s := p.Shape(n.Raw).Start
	return d.at(s.Line, s.Column, int(n.Raw.Length))
}

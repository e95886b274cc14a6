package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// override puts one --set into the tree. The value is TOML; what is no TOML, or
// stands where text is wanted, is taken as text, so that quotes may be left out.
func override(root *node, set string, l *diag.List) {
	doc := &document{name: "--set", data: []byte(set), flag: true}
	report := func(at span, code, summary, hint string) {
		*l = append(*l, &diag.Diagnostic{Kind: diag.KindConfig, Code: code, Summary: summary, Source: at.source(), Hint: hint})
	}
	key, value, ok := strings.Cut(set, "=")
	if !ok || strings.TrimSpace(key) == "" {
		report(span{doc, 0, len(set)}, "C030", "--set wants section.key=value", "e.g. --set run.steps=20")
		return
	}
	var parts []keyPart
	for at, rest := 0, key; ; {
		name, tail, more := strings.Cut(rest, ".")
		trimmed := strings.TrimSpace(name)
		start := at + strings.Index(name, trimmed)
		if trimmed == "" {
			report(span{doc, 0, len(key)}, "C030", "--set wants section.key=value", "a part of the key is empty")
			return
		}
		parts = append(parts, keyPart{trimmed, span{doc, start, start + len(trimmed)}})
		if !more {
			break
		}
		at += len(name) + 1
		rest = tail
	}
	if len(parts) == 1 {
		report(parts[0].at, "C030", fmt.Sprintf("--set names no section for %q", parts[0].name), "write section.key=value")
		return
	}
	last := parts[len(parts)-1]
	v := flagValue(doc, len(key)+1, value, textual(parts))
	v.key = last.at

	at := root
	for _, p := range parts[:len(parts)-1] {
		next, ok := at.children[p.name]
		if at.kind == kindTables || at.kind == kindArray {
			i, err := strconv.Atoi(p.name)
			if err != nil || i < 0 || i >= len(at.items) {
				report(p.at, "C030", fmt.Sprintf("there is no item %q", p.name), fmt.Sprintf("items count from 0; the file has %d", len(at.items)))
				return
			}
			next, ok = at.items[i], true
		}
		if !ok {
			next = newTable(p.at)
			at.add(p.name, next)
		}
		at = next
	}
	if at.kind != kindTable {
		report(parts[len(parts)-2].at, "C030", fmt.Sprintf("%q has no keys", parts[len(parts)-2].name), "")
		return
	}
	at.add(last.name, v)
}

// textual tells whether the key's schema wants text.
func textual(parts []keyPart) bool {
	t := configType
	for _, p := range parts {
		switch {
		case t == settingsType:
			return true
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
			t = t.Elem() // p is a name or an index
			continue
		case t.Kind() != reflect.Struct:
			return false
		}
		found := false
		for _, f := range fields(t) {
			if f.key == p.name {
				t, found = f.typ, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return t.Kind() == reflect.String || t == durationType || t == sizeType
}

// flagValue reads the text behind the equals sign.
func flagValue(doc *document, start int, text string, wantText bool) *node {
	at := span{doc, start, start + len(text)}
	line := "x=" + text
	var problems diag.List
	scratch := &document{name: doc.name, data: []byte(line), flag: true}
	root := newTable(span{doc: scratch})
	if !bytes.ContainsAny([]byte(text), "\n\r#") {
		if _, msg := parse(scratch, scratch.data, root, &problems); msg == "" && len(problems) == 0 && len(root.order) == 1 {
			if v := root.children["x"]; v != nil && (v.kind == kindString || !wantText) {
				move(v, doc, start-len("x="))
				return v
			}
		}
	}
	return &node{kind: kindString, text: text, val: at}
}

// move points the spans of a value into another document.
func move(n *node, doc *document, by int) {
	n.val = span{doc, n.val.start + by, n.val.end + by}
	n.key = span{doc, n.key.start + by, n.key.end + by}
	for _, c := range n.items {
		move(c, doc, by)
	}
	for _, c := range n.children {
		move(c, doc, by)
	}
}

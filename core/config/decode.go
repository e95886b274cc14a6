package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/diag"
)

// decoder fills the structs from the tree and collects what is wrong.
type decoder struct {
	file    string
	l       diag.List
	nodes   map[string]*node // what was written, by path
	origins map[string]diag.Source
}

// met remembers where a path was written.
func (d *decoder) met(path string, n *node) {
	d.nodes[path] = n
	d.origins[path] = n.key.source()
}

func (d *decoder) report(at span, code, summary, hint string, detail ...string) {
	src := at.source()
	if at.doc == nil {
		src.File = d.file
	}
	d.l = append(d.l, &diag.Diagnostic{Kind: diag.KindConfig, Code: code, Summary: summary, Source: src, Hint: hint, Detail: detail})
}

func parentKey(key string) string {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i]
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// table decodes n, which may be nil, into the struct v. path is where it stands
// ("skills.review"), title how a person would call it ("[skills.review]").
func (d *decoder) table(path, title string, n *node, v reflect.Value) {
	fs := fields(v.Type())
	d.unknown(path, title, n, fs)
	for _, f := range fs {
		fv := v.Field(f.index)
		p := join(path, f.key)
		var c *node
		if n != nil {
			c = n.children[f.key]
		}
		if c != nil {
			d.met(p, c)
		}
		switch f.shape() {
		case section:
			if c != nil && c.kind != kindTable {
				d.wrongType(p, f, c)
				c = nil
			}
			d.table(p, "["+p+"]", c, fv)
		case repeated:
			d.repeated(p, f, c, fv)
		case named:
			d.named(p, f, c, fv)
		case settings:
			if c != nil {
				d.settings(p, f, c, fv)
			}
		default:
			d.field(p, title, f, n, c, fv)
		}
	}
}

// unknown reports keys that no field has.
func (d *decoder) unknown(path, title string, n *node, fs []field) {
	if n == nil {
		return
	}
	keys := keysOf(fs)
	for _, k := range n.order {
		if contains(keys, k) {
			continue
		}
		c := n.children[k]
		if path == "" {
			d.unknownSection(k, c, fs)
			continue
		}
		hint := ""
		if near := nearest(k, keys); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		} else if home := sectionWith(k); home != "" {
			hint = "it belongs to " + home
		}
		d.report(c.key, "C014", fmt.Sprintf("unknown key %q", k), hint, title+" accepts: "+strings.Join(keys, ", "))
	}
}

func (d *decoder) unknownSection(k string, c *node, fs []field) {
	var names, keys []string
	for _, f := range fs {
		keys = append(keys, f.key)
		names = append(names, headerOf(f))
	}
	hint := ""
	if near := nearest(k, keys); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if home := sectionWith(k); home != "" && c.kind != kindTable {
		hint = "it belongs to " + home
	}
	what := "section"
	if c.kind != kindTable && c.kind != kindTables {
		what = "key"
	}
	d.report(c.key, "C014", fmt.Sprintf("unknown %s %q", what, k), hint, "sections: "+strings.Join(names, " "))
}

// headerOf is how a section's header is written.
func headerOf(f field) string {
	switch f.shape() {
	case repeated:
		return "[[" + f.key + "]]"
	case named:
		return "[" + f.key + ".<name>]"
	}
	return "[" + f.key + "]"
}

// sectionWith names the one section that has the key, or "".
func sectionWith(key string) string {
	var homes []string
	var look func(f field)
	look = func(f field) {
		t := f.typ
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		for _, k := range fields(t) {
			if k.key == key {
				homes = append(homes, headerOf(f))
			}
			if k.shape() == section {
				k.key = f.key + "." + k.key
				look(k)
			}
		}
	}
	for _, f := range fields(configType) {
		look(f)
	}
	if len(homes) != 1 {
		return ""
	}
	return homes[0]
}

func (d *decoder) repeated(path string, f field, n *node, v reflect.Value) {
	if n == nil {
		return
	}
	items := n.items
	if n.kind == kindTable || n.kind != kindTables && n.kind != kindArray {
		d.report(n.key, "C011", fmt.Sprintf("%q is %s where a repeated section belongs", f.key, n.kind), fmt.Sprintf("write [[%s]]", f.key))
		return
	}
	for i, c := range items {
		if c.kind != kindTable {
			d.report(c.val, "C011", fmt.Sprintf("%q holds %s where a table belongs", f.key, c.kind), fmt.Sprintf("write [[%s]]", f.key))
			continue
		}
		item := reflect.New(f.typ.Elem()).Elem()
		p := join(path, strconv.Itoa(i))
		d.met(p, c)
		d.table(p, "[["+f.key+"]]", c, item)
		v.Set(reflect.Append(v, item))
	}
}

func (d *decoder) named(path string, f field, n *node, v reflect.Value) {
	if n == nil {
		return
	}
	if n.kind != kindTable {
		d.report(n.key, "C011", fmt.Sprintf("%q is %s where sections belong", f.key, n.kind), fmt.Sprintf("write [%s.<name>]", f.key))
		return
	}
	index, _ := nameField(f.typ.Elem())
	for _, name := range n.order {
		c := n.children[name]
		p := join(path, name)
		d.met(p, c)
		if c.kind != kindTable {
			d.report(c.key, "C011", fmt.Sprintf("%q is %s where a section belongs", p, c.kind), fmt.Sprintf("write [%s.<name>]", f.key))
			continue
		}
		if !validName(name) {
			d.report(c.key, "C012", fmt.Sprintf("name %q has other characters than letters, digits, dash and underscore", name), "")
		}
		item := reflect.New(f.typ.Elem()).Elem()
		item.Field(index).SetString(name)
		d.table(p, "["+p+"]", c, item)
		v.Set(reflect.Append(v, item))
	}
}

// validName accepts what may be a skill's, a suite's or a folder's name.
func validName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && !isLetter(c) && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// settings decodes a table of the author's own keys; scalars are kept as written.
func (d *decoder) settings(path string, f field, n *node, v reflect.Value) {
	if n.kind != kindTable {
		d.wrongType(path, f, n)
		return
	}
	m := map[string]string{}
	for _, k := range n.order {
		c := n.children[k]
		d.met(join(path, k), c)
		switch c.kind {
		case kindString, kindBool, kindInteger, kindFloat:
			m[k] = c.text
		default:
			d.report(c.val, "C011", fmt.Sprintf("%q is %s; values here are text, numbers, true or false", k, c.kind), "")
		}
	}
	v.Set(reflect.ValueOf(m))
}

// field decodes one scalar or list, or puts its default.
func (d *decoder) field(path, title string, f field, parent, n *node, v reflect.Value) {
	if n == nil {
		if f.required {
			at := span{}
			if parent != nil {
				at = parent.val
			}
			d.report(at, "C010", fmt.Sprintf("%s needs the key %q", title, f.key), fmt.Sprintf("add %s = …", f.key), f.doc)
		}
		if f.hasDef {
			n = literal(f)
		}
		if n == nil {
			return
		}
	}
	if f.pointer {
		p := reflect.New(f.typ)
		if d.value(path, f, n, p.Elem()) {
			v.Set(p)
		}
		return
	}
	d.value(path, f, n, v)
}

// literal is the node of a field's default.
func literal(f field) *node {
	n := &node{text: f.def}
	switch {
	case f.typ == durationType, f.typ == sizeType, f.typ.Kind() == reflect.String:
		n.kind = kindString
	case f.typ.Kind() == reflect.Bool:
		n.kind = kindBool
	case f.typ.Kind() == reflect.Float64:
		n.kind = kindFloat
	default:
		n.kind = kindInteger
	}
	return n
}

func (d *decoder) wrongType(path string, f field, n *node) {
	hint := "want " + article(f.typeName())
	switch {
	case f.shape() == section:
		hint = fmt.Sprintf("write [%s]", path)
	case f.typ == durationType:
		hint = `want a duration in quotes, e.g. "5m"`
	case f.typ == sizeType:
		hint = `want a size in quotes, e.g. "512MiB"`
	case f.typ.Kind() == reflect.String && n.kind != kindTable && n.kind != kindArray:
		hint = fmt.Sprintf("want a string: %q", n.text)
	case f.typ == stringsType && n.kind == kindString:
		hint = fmt.Sprintf("want a list: [%q]", n.text)
	}
	d.report(n.val, "C011", fmt.Sprintf("%s is %s", path, n.kind), hint)
}

func article(s string) string {
	switch {
	case s == "true or false":
		return s
	case strings.IndexByte("aeiou", s[0]) >= 0:
		return "an " + s
	}
	return "a " + s
}

// value decodes n into v; it reports and gives false when n does not fit.
func (d *decoder) value(path string, f field, n *node, v reflect.Value) bool {
	before := len(d.l)
	switch {
	case f.typ == durationType:
		d.duration(path, f, n, v)
	case f.typ == sizeType:
		d.size(path, f, n, v)
	case f.typ == stringsType:
		d.strings(path, f, n, v)
	default:
		switch f.typ.Kind() {
		case reflect.String:
			if n.kind != kindString {
				d.wrongType(path, f, n)
			} else if d.word(path, f, n) {
				v.SetString(n.text)
			}
		case reflect.Bool:
			if n.kind != kindBool {
				d.wrongType(path, f, n)
			} else {
				v.SetBool(n.text == "true")
			}
		case reflect.Int:
			d.integer(path, f, n, func(s string) error {
				i, err := strconv.ParseInt(s, 0, 64)
				if err == nil {
					v.SetInt(i)
				}
				return err
			}, func() float64 { return float64(v.Int()) })
		case reflect.Uint64:
			d.integer(path, f, n, func(s string) error {
				i, err := strconv.ParseInt(s, 0, 64)
				if err == nil && i < 0 {
					return strconv.ErrRange
				}
				v.SetUint(uint64(i))
				return err
			}, func() float64 { return float64(v.Uint()) })
		case reflect.Float64:
			d.number(path, f, n, v)
		default:
			panic("config: no decoder for " + f.typ.String())
		}
	}
	return len(d.l) == before
}

func (d *decoder) inRange(path string, f field, n *node, x float64) {
	if x < f.min || x > f.max || f.above && x == f.min {
		d.report(n.val, "C012", fmt.Sprintf("%s is out of range", path), "want "+f.bounds())
	}
}

func (d *decoder) integer(path string, f field, n *node, set func(string) error, get func() float64) {
	if n.kind != kindInteger {
		d.wrongType(path, f, n)
		return
	}
	if err := set(n.text); err != nil {
		want := f.bounds()
		if want == "" {
			want = "a 64-bit integer"
		}
		d.report(n.val, "C012", fmt.Sprintf("%s is out of range", path), "want "+want)
		return
	}
	d.inRange(path, f, n, get())
}

func (d *decoder) number(path string, f field, n *node, v reflect.Value) {
	if n.kind != kindFloat && n.kind != kindInteger {
		d.wrongType(path, f, n)
		return
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), 64)
	if n.kind == kindInteger {
		var i int64
		i, err = strconv.ParseInt(n.text, 0, 64)
		x = float64(i)
	}
	switch {
	case err != nil, math.IsNaN(x):
		d.report(n.val, "C012", fmt.Sprintf("%s is no finite number", path), "")
		return
	case math.IsInf(x, 0) && !(f.inf && x > 0):
		d.report(n.val, "C012", fmt.Sprintf("%s is infinite", path), "want a finite number")
		return
	}
	if x == 0 {
		x = 0 // no negative zero
	}
	v.SetFloat(x)
	if !math.IsInf(x, 1) {
		d.inRange(path, f, n, x)
	}
}

func (d *decoder) duration(path string, f field, n *node, v reflect.Value) {
	if n.kind != kindString {
		d.wrongType(path, f, n)
		return
	}
	t, err := time.ParseDuration(n.text)
	if err != nil {
		d.report(n.val, "C015", fmt.Sprintf("%s: %q is no duration", path, n.text), `want e.g. "90s", "5m", "1h30m"`)
		return
	}
	v.SetInt(int64(t))
	d.inRange(path, f, n, float64(t))
}

func (d *decoder) size(path string, f field, n *node, v reflect.Value) {
	if n.kind != kindString && n.kind != kindInteger {
		d.wrongType(path, f, n)
		return
	}
	s, err := ParseSize(n.text)
	if err != nil {
		d.report(n.val, "C015", fmt.Sprintf("%s: %v", path, err), `want e.g. "512MiB", "2GiB"`)
		return
	}
	v.SetInt(int64(s))
	d.inRange(path, f, n, float64(s))
}

func (d *decoder) strings(path string, f field, n *node, v reflect.Value) {
	if n.kind != kindArray {
		d.wrongType(path, f, n)
		return
	}
	out := make([]string, 0, len(n.items))
	for _, c := range n.items {
		if c.kind != kindString {
			d.report(c.val, "C011", fmt.Sprintf("%s holds %s", path, c.kind), "want strings only")
			continue
		}
		if !d.word(path, f, c) {
			continue
		}
		if contains(out, c.text) {
			d.report(c.val, "C003", fmt.Sprintf("%s names %q twice", path, c.text), "remove one")
			continue
		}
		out = append(out, c.text)
	}
	v.Set(reflect.ValueOf(out))
}

// word checks a string against the field's enum.
func (d *decoder) word(path string, f field, n *node) bool {
	if len(f.enum) == 0 {
		return true
	}
	have := offered(f)
	switch {
	case contains(have, n.text):
		return true
	case contains(f.absent, n.text):
		d.report(n.val, "C022", fmt.Sprintf("%s: %q is not offered by this build", path, n.text), "this build has: "+strings.Join(have, ", "))
	default:
		hint := "want one of: " + strings.Join(have, ", ")
		if near := nearest(n.text, have); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		d.report(n.val, "C013", fmt.Sprintf("%s: unknown value %q", path, n.text), hint, f.key+" accepts: "+strings.Join(have, ", "))
	}
	return false
}

package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is what the tags of one struct field say.
type field struct {
	key      string
	index    int
	typ      reflect.Type // pointers removed
	pointer  bool
	def      string
	hasDef   bool
	required bool
	optional bool
	min, max float64 // -Inf, +Inf: none
	above    bool    // min is exclusive
	inf      bool
	enum     []string
	absent   []string
	unit     string
	doc      string
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	stringsType  = reflect.TypeFor[[]string]()
	settingsType = reflect.TypeFor[map[string]string]()
	configType   = reflect.TypeFor[Config]()
)

// fields reads the tags of a struct type. The tags are the program's own, so a
// wrong one panics; the tests load every section.
func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		key := sf.Tag.Get("toml")
		if key == "" || key == "-" {
			continue
		}
		f := field{key: key, index: i, typ: sf.Type, min: math.Inf(-1), max: math.Inf(1)}
		if f.typ.Kind() == reflect.Pointer {
			f.pointer, f.typ = true, f.typ.Elem()
		}
		f.def, f.hasDef = sf.Tag.Lookup("default")
		f.required = sf.Tag.Get("required") == "true"
		f.optional = sf.Tag.Get("optional") == "true"
		f.inf = sf.Tag.Get("inf") == "true"
		f.unit, f.doc = sf.Tag.Get("unit"), sf.Tag.Get("doc")
		f.enum, f.absent = words(sf.Tag.Get("enum")), words(sf.Tag.Get("absent"))
		if s, ok := sf.Tag.Lookup("min"); ok {
			f.min = bound(sf.Name, s)
		}
		if s, ok := sf.Tag.Lookup("above"); ok {
			f.min, f.above = bound(sf.Name, s), true
		}
		if s, ok := sf.Tag.Lookup("max"); ok {
			f.max = bound(sf.Name, s)
		}
		out = append(out, f)
	}
	return out
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

func bound(name, s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(fmt.Sprintf("config: field %s: bound %q", name, s))
	}
	return f
}

// shape tells how a field of Config, or a value, is written.
type shape int

const (
	scalar   shape = iota
	settings       // a table of the author's own keys
	section        // [key]
	repeated       // [[key]]
	named          // [key.<name>]
)

func (f field) shape() shape {
	switch f.typ.Kind() {
	case reflect.Map:
		return settings
	case reflect.Struct:
		return section
	case reflect.Slice:
		if f.typ.Elem().Kind() != reflect.Struct {
			return scalar
		}
		if _, ok := nameField(f.typ.Elem()); ok {
			return named
		}
		return repeated
	}
	return scalar
}

// nameField is the index of the field that takes a named section's name.
func nameField(t reflect.Type) (int, bool) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("name") == "true" {
			return i, true
		}
	}
	return 0, false
}

// typeName is what a person would call the field's type.
func (f field) typeName() string {
	switch {
	case f.typ == durationType:
		return "duration"
	case f.typ == sizeType:
		return "size"
	case f.typ == stringsType:
		return "list of strings"
	case f.typ == settingsType:
		return "table"
	}
	switch f.typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return "table"
}

// bounds describes the accepted range, or "".
func (f field) bounds() string {
	if len(f.enum) > 0 {
		return strings.Join(offered(f), ", ")
	}
	lo, hi := !math.IsInf(f.min, -1), !math.IsInf(f.max, 1)
	show := func(x float64) string {
		switch f.typ {
		case durationType:
			return time.Duration(x).String()
		case sizeType:
			return Size(x).String()
		}
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	switch {
	case lo && f.above && hi:
		return "more than " + show(f.min) + ", at most " + show(f.max)
	case lo && f.above && f.inf:
		return "more than " + show(f.min) + ", or inf"
	case lo && f.above:
		return "more than " + show(f.min)
	case lo && hi:
		return show(f.min) + " to " + show(f.max)
	case lo:
		return show(f.min) + " or more"
	case hi:
		return "at most " + show(f.max)
	case f.typ.Kind() == reflect.Uint64:
		return "0 or more"
	}
	return ""
}

// offered lists the words of the enum that this build has.
func offered(f field) []string {
	var out []string
	for _, w := range f.enum {
		if !contains(f.absent, w) {
			out = append(out, w)
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func keysOf(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.key
	}
	return out
}

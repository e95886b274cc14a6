package config

import (
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Resolved writes the configuration, defaults included, as TOML that loads to the
// same configuration.
func Resolved(c *Config) []byte {
	var b strings.Builder
	b.WriteString("# Resolved: every default is written out, --set is applied.\n")
	v := reflect.ValueOf(c).Elem()
	for _, f := range fields(configType) {
		fv := v.Field(f.index)
		switch f.shape() {
		case section:
			if f.key == "model" && c.Model.BaseURL == "" || f.key == "server" && c.Server.Model == "" {
				continue
			}
			fmt.Fprintf(&b, "\n[%s]\n", f.key)
			writeTable(&b, f.key, fv)
		case repeated:
			for i := range fv.Len() {
				fmt.Fprintf(&b, "\n[[%s]]\n", f.key)
				writeTable(&b, f.key, fv.Index(i))
			}
		case named:
			index, _ := nameField(f.typ.Elem())
			for i := range fv.Len() {
				item := fv.Index(i)
				title := f.key + "." + item.Field(index).String()
				fmt.Fprintf(&b, "\n[%s]\n", title)
				writeTable(&b, title, item)
			}
		}
	}
	return []byte(b.String())
}

func writeTable(b *strings.Builder, title string, v reflect.Value) {
	for _, f := range fields(v.Type()) {
		fv := v.Field(f.index)
		if f.optional && (fv.IsZero() || f.typ.Kind() == reflect.Map && fv.Len() == 0) {
			continue
		}
		if s := f.shape(); s == settings || s == section {
			continue
		}
		if f.pointer {
			fv = fv.Elem()
		}
		fmt.Fprintf(b, "%s = %s\n", f.key, valueText(fv))
	}
	for _, f := range fields(v.Type()) {
		m := v.Field(f.index)
		if f.shape() == section {
			fmt.Fprintf(b, "\n[%s.%s]\n", title, f.key)
			writeTable(b, title+"."+f.key, m)
			continue
		}
		if f.shape() != settings || m.Len() == 0 {
			continue
		}
		fmt.Fprintf(b, "\n[%s.%s]\n", title, f.key)
		keys := make([]string, 0, m.Len())
		for _, k := range m.MapKeys() {
			keys = append(keys, k.String())
		}
		sort.Strings(keys)
		for _, k := range keys {
			fmt.Fprintf(b, "%s = %s\n", keyText(k), quote(m.MapIndex(reflect.ValueOf(k)).String()))
		}
	}
}

func keyText(k string) string {
	if validName(k) {
		return k
	}
	return quote(k)
}

func valueText(v reflect.Value) string {
	switch v.Type() {
	case durationType:
		return quote(durationText(time.Duration(v.Int())))
	case sizeType:
		return quote(Size(v.Int()).String())
	case stringsType:
		s := make([]string, v.Len())
		for i := range s {
			s[i] = quote(v.Index(i).String())
		}
		return "[" + strings.Join(s, ", ") + "]"
	}
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	}
	return floatText(v.Float())
}

func floatText(x float64) string {
	if math.IsInf(x, 1) {
		return "inf"
	}
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// durationText is time.Duration's own form without zero minutes and seconds.
func durationText(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// quote writes a basic TOML string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

package records

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/sdk"
)

// filesType is the one type that may lie beside the file.
var filesType = reflect.TypeFor[[]sdk.File]()

// inline is the most that the files of one list may hold to stand in the record
// itself, in bytes.
const inline = 4096

// encoder renders values; files keeps a list that is too large to stand inline, and
// gives the digest of its tree.
type encoder struct {
	files func([]sdk.File) (string, error)
}

// record appends one line's JSON: keys are the names of sdk.Record's fields, in the
// order of the type, without those that are empty.
func (e *encoder) record(b []byte, r *sdk.Record) ([]byte, error) {
	return e.fields(b, reflect.ValueOf(r).Elem())
}

func (e *encoder) fields(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	first := true
	for i := range v.NumField() {
		f := v.Field(i)
		if empty(f) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(rows.AppendText(b, v.Type().Field(i).Name), ':')
		var err error
		if b, err = e.value(b, f); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}

func (e *encoder) value(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		return appendText(b, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Struct:
		return e.fields(b, v)
	case reflect.Slice:
		return e.slice(b, v)
	}
	return nil, fmt.Errorf("no rule to write a %s", v.Type())
}

// appendText appends a text, or the base64 of what is no Unicode.
func appendText(b []byte, s string) []byte {
	if utf8.ValidString(s) {
		return rows.AppendText(b, s)
	}
	b = append(b, `{"base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, []byte(s))
	return append(b, `"}`...)
}

func (e *encoder) slice(b []byte, v reflect.Value) ([]byte, error) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, v.Bytes())
		return append(b, '"'), nil
	}
	if v.Type() == filesType {
		files := v.Interface().([]sdk.File)
		n := 0
		for i := range files {
			n += len(files[i].Data) + len(files[i].Path)
		}
		if n > inline {
			digest, err := e.files(files)
			if err != nil {
				return nil, err
			}
			b = append(b, `{"tree":`...)
			return append(rows.AppendText(b, digest), '}'), nil
		}
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = e.value(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// decoder reads what encoder wrote; tree gives the files of a tree.
type decoder struct {
	tree func(digest string) ([]sdk.File, error)
}

// wrong says which key of a line is not as it should be.
type wrong struct {
	field string
	err   error
}

func (w *wrong) Error() string { return w.field + ": " + w.err.Error() }
func (w *wrong) Unwrap() error { return w.err }

func (d *decoder) from(fields []rows.Field) (*sdk.Record, error) {
	r := new(sdk.Record)
	if err := d.fields(fields, reflect.ValueOf(r).Elem(), ""); err != nil {
		return nil, err
	}
	return r, nil
}

func (d *decoder) fields(fields []rows.Field, v reflect.Value, path string) error {
	for _, f := range fields {
		to, name, err := field(v, f.Name)
		if err == nil {
			name = path + name
			err = d.value(f.Value, to, name)
		} else {
			name = path + f.Name
		}
		if _, placed := err.(*wrong); err != nil && !placed {
			err = &wrong{name, err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field finds a field by its name, in any case.
func field(v reflect.Value, name string) (reflect.Value, string, error) {
	f, ok := v.Type().FieldByName(name)
	if !ok {
		f, ok = v.Type().FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	}
	if !ok || len(f.Index) != 1 {
		return reflect.Value{}, "", fmt.Errorf("a %s has no such key", strings.ToLower(v.Type().Name()))
	}
	return v.Field(f.Index[0]), f.Name, nil
}

func (d *decoder) value(from rows.Value, to reflect.Value, path string) error {
	if from.IsNull() {
		return nil
	}
	bad := func(want string) error { return fmt.Errorf("want %s, not a %s", want, from.Kind()) }
	switch to.Kind() {
	case reflect.String:
		s, err := text(from)
		if err != nil {
			return err
		}
		to.SetString(s)
		return nil
	case reflect.Bool:
		if from.Kind() != "boolean" {
			return bad("true or false")
		}
		to.SetBool(from.JSON[0] == 't')
		return nil
	case reflect.Int64:
		n, err := strconv.ParseInt(string(from.JSON), 10, 64)
		if err != nil {
			return bad("a whole number")
		}
		to.SetInt(n)
		return nil
	case reflect.Struct:
		if from.Kind() != "object" {
			return bad("an object")
		}
		fields, err := rows.Object(from.JSON)
		if err != nil {
			return err
		}
		return d.fields(fields, to, path+".")
	}
	return d.slice(from, to, path)
}

// text reads a text, or the base64 of what is no Unicode.
func text(from rows.Value) (string, error) {
	if from.IsText() {
		return from.Text, nil
	}
	if from.Kind() == "object" {
		f, err := rows.Object(from.JSON)
		if err != nil {
			return "", err
		}
		if len(f) == 1 && f[0].Name == "base64" && f[0].Value.IsText() {
			b, err := base64.StdEncoding.DecodeString(f[0].Value.Text)
			return string(b), err
		}
	}
	return "", fmt.Errorf("want a text, not a %s", from.Kind())
}

func (d *decoder) slice(from rows.Value, to reflect.Value, path string) error {
	if to.Type().Elem().Kind() == reflect.Uint8 {
		if !from.IsText() {
			return fmt.Errorf("want bytes in base64, not a %s", from.Kind())
		}
		b, err := base64.StdEncoding.DecodeString(from.Text)
		to.SetBytes(b)
		return err
	}
	if to.Type() == filesType && from.Kind() == "object" {
		f, err := rows.Object(from.JSON)
		if err != nil {
			return err
		}
		if len(f) != 1 || f[0].Name != "tree" || !f[0].Value.IsText() {
			return fmt.Errorf(`want a list of files, or {"tree": "sha256:…"}`)
		}
		files, err := d.tree(f[0].Value.Text)
		to.Set(reflect.ValueOf(files))
		return err
	}
	if from.Kind() != "list" {
		return fmt.Errorf("want a list, not a %s", from.Kind())
	}
	items, err := rows.Elements(from.JSON)
	if err != nil || len(items) == 0 {
		return err
	}
	out := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if err := d.value(item, out.Index(i), at); err != nil {
			if _, placed := err.(*wrong); placed {
				return err
			}
			return &wrong{at, err}
		}
	}
	to.Set(out)
	return nil
}

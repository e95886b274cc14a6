package formats

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/core/data/rows"
	"github.com/valence-rl/valence/sdk"
)

// row reads the columns of one row. The first column that is not as it should be is
// kept in bad; what is read after it does not matter.
type row struct {
	fields []rows.Field
	at     map[string]int
	used   map[string]bool
	diffs  diffs
	bad    *fault
}

// fault is what is wrong with a record, and with which field of what it is made from.
type fault struct{ field, text string }

func (f *fault) Error() string { return f.field + ": " + f.text }

func newRow(fields []rows.Field) *row {
	r := &row{fields: fields, at: make(map[string]int, len(fields)), used: make(map[string]bool, len(fields)), diffs: diffs{}}
	for i, f := range fields {
		r.at[f.Name] = i
	}
	return r
}

func (r *row) fail(field, format string, args ...any) {
	if r.bad == nil {
		r.bad = &fault{field, fmt.Sprintf(format, args...)}
	}
}

// get gives a column's value; null is like none.
func (r *row) get(name string) (rows.Value, bool) {
	i, ok := r.at[name]
	if !ok || r.fields[i].Value.IsNull() {
		return rows.Value{}, false
	}
	r.used[name] = true
	return r.fields[i].Value, true
}

// text reads a column that may be missing.
func (r *row) text(name string) string {
	v, ok := r.get(name)
	if ok && !v.IsText() {
		r.fail(name, "want a text, not a %s", v.Kind())
	}
	return v.Text
}

// need reads a column that must be there and not empty.
func (r *row) need(name string) string {
	s := r.text(name)
	if _, ok := r.get(name); !ok {
		r.fail(name, "missing")
	} else if s == "" {
		r.fail(name, "empty")
	}
	return s
}

// list reads a list of texts, or a text that holds one as JSON.
func (r *row) list(name string) []string {
	v, ok := r.get(name)
	if !ok {
		return nil
	}
	raw := v.JSON
	if v.IsText() {
		if strings.TrimSpace(v.Text) == "" {
			return nil
		}
		raw = []byte(v.Text)
	}
	items, err := rows.Elements(raw)
	if err != nil {
		r.fail(name, "want a list of texts, or its JSON: %v", err)
		return nil
	}
	var out []string
	for i, item := range items {
		if !item.IsText() {
			r.fail(name, "element %d: want a text, not a %s", i+1, item.Kind())
			return nil
		}
		out = append(out, item.Text)
	}
	return out
}

// jsonKey marks the name of a column whose value was no text: the pair holds its JSON.
const jsonKey = ":json"

// keep makes pairs of the columns named, and of all that nothing else has read.
func (r *row) keep(names ...string) []sdk.Pair {
	for _, n := range names {
		delete(r.used, n)
	}
	var out []sdk.Pair
	for _, f := range r.fields {
		switch {
		case r.used[f.Name], f.Value.IsNull():
		case f.Value.IsText():
			out = append(out, sdk.Pair{Key: f.Name, Value: f.Value.Text})
		default:
			out = append(out, sdk.Pair{Key: f.Name + jsonKey, Value: string(f.Value.JSON)})
		}
	}
	return out
}

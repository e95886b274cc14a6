package rows

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// table reads the rows of a Parquet file, one row group after the other.
type table struct {
	file   *parquet.File
	schema *parquet.Schema
	groups []parquet.RowGroup
	rows   parquet.Rows
	batch  []parquet.Row
	left   []parquet.Row // of the batch
	ended  bool          // the batch is the group's last
	until  int64         // rows of the groups up to and with the current one
}

// guard makes an error of a panic of the decoder, which damaged files can bring about.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged Parquet: %v", p)
	}
}

func openTable(f *os.File, size int64) (t *table, err error) {
	defer guard(&err)
	p, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<18))
	if err != nil {
		return nil, fmt.Errorf("not readable as Parquet: %w", err)
	}
	return &table{file: p, schema: p.Schema(), groups: p.RowGroups(), batch: make([]parquet.Row, 32)}, nil
}

// next gives a row's fields in the order of the columns.
func (t *table) next() (out []Field, err error) {
	defer guard(&err)
	for len(t.left) == 0 {
		if err := t.fill(); err != nil {
			return nil, err
		}
	}
	row := t.left[0]
	t.left = t.left[1:]
	values := map[string]any{}
	if err := t.schema.Reconstruct(&values, row); err != nil {
		return nil, err
	}
	for _, f := range t.schema.Fields() {
		v, err := valueOf(moment(f, values[f.Name()]))
		if err != nil {
			return nil, &SyntaxError{Field: f.Name(), Text: err.Error()}
		}
		out = append(out, Field{f.Name(), v})
	}
	return out, nil
}

// fill reads the next batch of rows.
func (t *table) fill() error {
	if t.rows != nil && t.ended {
		t.rows.Close()
		t.rows, t.ended = nil, false
	}
	if t.rows == nil {
		if len(t.groups) == 0 {
			return io.EOF
		}
		t.enter()
	}
	n, err := t.rows.ReadRows(t.batch)
	t.left = t.batch[:n]
	switch {
	case errors.Is(err, io.EOF), err == nil && n == 0:
		t.ended = true
	case err != nil:
		return err
	}
	return nil
}

// enter goes to the next group.
func (t *table) enter() {
	group := t.groups[0]
	t.groups = t.groups[1:]
	t.until += group.NumRows()
	t.rows = group.Rows()
}

// leave gives the current group up, and says up to which row that is. Groups do not need
// one another.
func (t *table) leave() (last int64) {
	if t.rows != nil {
		t.rows.Close()
	}
	t.rows, t.ended, t.left = nil, false, nil
	return t.until
}

// skip passes over n rows without reading those of whole groups.
func (t *table) skip(n int64) (err error) {
	defer guard(&err)
	for n > 0 && len(t.groups) > 0 && t.rows == nil && t.groups[0].NumRows() <= n {
		n -= t.groups[0].NumRows()
		t.until += t.groups[0].NumRows()
		t.groups = t.groups[1:]
	}
	for ; n > 0; n-- {
		for len(t.left) == 0 {
			if err := t.fill(); err != nil {
				return err
			}
		}
		t.left = t.left[1:]
	}
	return nil
}

func (t *table) close() {
	if t.rows != nil {
		t.rows.Close()
	}
}

// moment makes a time of a number that its column calls a timestamp.
func moment(f parquet.Field, v any) any {
	n, ok := v.(int64)
	if !ok || !f.Leaf() || f.Type().LogicalType() == nil {
		return v
	}
	t, ok := f.Type().LogicalType().Value.(*format.TimestampType)
	if !ok || t.Unit.Value == nil {
		return v
	}
	unit := int64(t.Unit.Value.Duration())
	perSecond := int64(time.Second) / unit
	return time.Unix(n/perSecond, n%perSecond*unit)
}

// valueOf makes a value of what the decoder gives.
func valueOf(v any) (Value, error) {
	switch v := v.(type) {
	case nil:
		return Value{JSON: []byte("null")}, nil
	case string:
		if !utf8.ValidString(v) {
			return Value{}, errors.New("not UTF-8")
		}
		return Value{Text: v}, nil
	case []byte:
		return valueOf(string(v))
	case time.Time:
		return Value{Text: v.UTC().Format(time.RFC3339Nano)}, nil
	}
	plain, err := plain(v)
	if err != nil {
		return Value{}, err
	}
	b, err := json.Marshal(plain)
	return Value{JSON: b}, err
}

// plain makes of a nested value what JSON can say.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			p, err := plain(e)
			if err != nil {
				return nil, err
			}
			v[k] = p
		}
		return v, nil
	case []any:
		for i, e := range v {
			p, err := plain(e)
			if err != nil {
				return nil, err
			}
			v[i] = p
		}
		return v, nil
	case []byte:
		return plain(string(v))
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New("not UTF-8")
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil
		}
	case float32:
		return plain(float64(v))
	}
	return v, nil
}

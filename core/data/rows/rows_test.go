package rows

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// text is a row as one text.
func text(fields []Field) string {
	var b []byte
	for _, f := range fields {
		b = append(f.Value.Append(append(b, f.Name+"="...)), ' ')
	}
	return string(b)
}

// read gives all rows of a file after n of them; bad ones as their errors.
func read(t testing.TB, path string, n int64) (out []string) {
	t.Helper()
	r, err := Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Skip(n); err != nil {
		t.Fatal(err)
	}
	for {
		raw, err := r.Next()
		var bad *Bad
		switch {
		case errors.Is(err, io.EOF):
			if done, total := r.Progress(); done != total {
				t.Errorf("%d of %d at the end", done, total)
			}
			return out
		case errors.As(err, &bad):
			out = append(out, bad.Error())
			continue
		case err != nil:
			t.Fatal(err)
		}
		fields, err := raw.Fields()
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		out = append(out, fmt.Sprintf("%d: %s", raw.Number, text(fields)))
	}
}

func TestParquetTypes(t *testing.T) {
	want := []string{
		`1: a=1 t="2020-01-01T00:00:00Z" s={"x":1,"y":["q"]} l=["a",null] f=1.5 b=true d="u" big="l1" `,
		`2: a=null t=null s=null l=[] f=null b=false d="u" big="l2" `,
		`3: a=3 t=null s={"x":2,"y":[]} l=null f=0 b=null d="v" big=null `,
	}
	if got := read(t, "testdata/types.parquet", 0); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

// forms writes the same rows in every form.
func forms(t testing.TB) map[string]string {
	dir := t.TempDir()
	var lines, list []string
	for i := range 25 {
		l := []string{}
		for range i % 3 {
			l = append(l, fmt.Sprint(i))
		}
		b, _ := json.Marshal(l)
		row := fmt.Sprintf(`{"n": "%d", "l": %s}`, i, b)
		lines, list = append(lines, row), append(list, row)
	}
	plain := []byte("\ufeff" + strings.Join(lines, "\r\n"))
	var g, z bytes.Buffer
	gw := gzip.NewWriter(&g)
	gw.Write(plain)
	gw.Close()
	zw, _ := zstd.NewWriter(&z)
	zw.Write(plain)
	zw.Close()
	out := map[string]string{"parquet": "testdata/groups.parquet"}
	for name, b := range map[string][]byte{"lines": plain, "gzip": g.Bytes(), "zstd": z.Bytes(), "list": []byte(" [\n" + strings.Join(list, ",\n") + "\n]\n")} {
		out[name] = filepath.Join(dir, name)
		os.WriteFile(out[name], b, 0o644)
	}
	return out
}

// All forms give the same rows, and what is passed over changes nothing of the rest.
func TestForms(t *testing.T) {
	all := forms(t)
	want := read(t, all["lines"], 0)
	if len(want) != 25 || want[4] != `5: n="4" l=["4"] ` {
		t.Fatalf("%q", want)
	}
	for name, path := range all {
		for n := range int64(30) {
			if got := read(t, path, n); len(got) != max(0, 25-int(n)) || len(got) > 0 && !reflect.DeepEqual(got, want[n:]) {
				t.Fatalf("%s after %d: %q", name, n, got)
			}
		}
	}
}

// A damaged file is an error, never a crash, wherever it is damaged.
func TestDamagedParquet(t *testing.T) {
	whole, err := os.ReadFile("testdata/groups.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p")
	rapid.Check(t, func(rt *rapid.T) {
		b := bytes.Clone(whole)
		if rapid.Bool().Draw(rt, "cut") {
			b = b[:rapid.IntRange(0, len(b)-1).Draw(rt, "at")]
		} else {
			for range rapid.IntRange(1, 4).Draw(rt, "flips") {
				b[rapid.IntRange(4, len(b)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "by"))
			}
		}
		os.WriteFile(path, b, 0o644)
		r, err := Open(path, 0)
		if err != nil {
			return
		}
		defer r.Close()
		for range 100 {
			raw, err := r.Next()
			var bad *Bad
			if err != nil && !errors.As(err, &bad) {
				return
			}
			raw.Fields()
		}
	})
}

// Of a damaged group the other groups do not know.
func TestDamagedGroup(t *testing.T) {
	whole, err := os.ReadFile("testdata/groups.parquet")
	if err != nil {
		t.Fatal(err)
	}
	want := read(t, "testdata/groups.parquet", 0)
	f, err := parquet.OpenFile(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	from := f.Metadata().RowGroups[1].Columns[0].MetaData.DataPageOffset
	broken := bytes.Clone(whole)
	for i := range int64(24) {
		broken[from+i] = 0xff
	}
	path := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	got := read(t, path, 0)
	if len(got) != 16 || !reflect.DeepEqual(got[:10], want[:10]) || !reflect.DeepEqual(got[11:], want[20:]) || !strings.Contains(got[10], "row 20: rows 11 to 20 cannot be read") {
		t.Errorf("%q", got)
	}
	if got := read(t, path, 20); !reflect.DeepEqual(got, want[20:]) {
		t.Errorf("after 20: %q", got)
	}
}

func TestCompressedParquetIsRefused(t *testing.T) {
	b, _ := os.ReadFile("testdata/groups.parquet")
	var z bytes.Buffer
	w, _ := zstd.NewWriter(&z)
	w.Write(b)
	w.Close()
	path := filepath.Join(t.TempDir(), "p.parquet.zst")
	os.WriteFile(path, z.Bytes(), 0o644)
	if _, err := Open(path, 0); err == nil || !strings.Contains(err.Error(), "decompress it") {
		t.Errorf("error %v", err)
	}
}

// same holds what this package reads to what encoding/json reads of it.
func same(t interface{ Fatalf(string, ...any) }, line []byte) {
	fields, err := Object(line)
	var want map[string]json.RawMessage
	werr := json.Unmarshal(line, &want)
	if err != nil {
		// Refused beyond encoding/json: what it would have replaced.
		if werr == nil && want != nil && utf8.Valid(line) && !bytes.Contains(bytes.ToLower(line), []byte(`\ud`)) {
			t.Fatalf("%q is refused: %v", line, err)
		}
		return
	}
	if werr != nil {
		t.Fatalf("%q is taken: %v", line, werr)
	}
	got := map[string]Value{}
	for _, f := range fields {
		got[f.Name] = f.Value
	}
	if len(got) != len(want) {
		t.Fatalf("%q: %d keys, want %d", line, len(got), len(want))
	}
	for k, w := range want {
		var s string
		if v := got[k]; v.IsText() {
			if err := json.Unmarshal(w, &s); err != nil || s != v.Text {
				t.Fatalf("%q: %s is %q, want %q", line, k, v.Text, s)
			}
			var back string
			if err := json.Unmarshal(AppendText(nil, s), &back); err != nil || back != s {
				t.Fatalf("%q is written as %s", s, AppendText(nil, s))
			}
		} else if string(v.JSON) != string(w) {
			t.Fatalf("%q: %s is %s, want %s", line, k, v.JSON, w)
		}
	}
}

func TestObject(t *testing.T) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "b":[{"x":"]}\""}] } `, `{"a":"\u00e9\n\/\"\\\b\f\ud83d\ude00"}`, `{"a":true,"a":null}`, `{"":""}`, `{"a":-1.5e3}`,
		`{"a":1`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1,}`, `{"a":01}`, `{"a":tru}`, `{"a":"x}`, `{"a":"` + "\n" + `"}`, `[]`, ``, `{"a":[1}`, `{"a":1}x`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":[1 2]}`, `{"a":]}`, `{,}`, `null`} {
		same(t, []byte(s))
	}
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return s }))).Draw(t, "object")
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("%v", err)
		}
		same(t, b)
	})
}

func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83d\ude00","b":[1,{"c":null}]}`))
	f.Fuzz(func(t *testing.T, b []byte) { same(t, b) })
}

func FuzzElements(f *testing.F) {
	f.Add([]byte(`["a", 1, [2]]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Elements(b)
		var want []json.RawMessage
		if werr := json.Unmarshal(b, &want); err == nil && (werr != nil || len(got) != len(want)) {
			t.Fatalf("%q: %d elements, want %d, %v", b, len(got), len(want), werr)
		}
	})
}

func FuzzOpen(f *testing.F) {
	for _, p := range []string{"testdata/types.parquet", "testdata/groups.parquet"} {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("[{}, {}]"))
	path := filepath.Join(f.TempDir(), "p")
	f.Fuzz(func(t *testing.T, b []byte) {
		os.WriteFile(path, b, 0o644)
		r, err := Open(path, 1<<16)
		if err != nil {
			return
		}
		defer r.Close()
		for range 1000 {
			raw, err := r.Next()
			var bad *Bad
			if err != nil && !errors.As(err, &bad) {
				return
			}
			raw.Fields()
		}
	})
}

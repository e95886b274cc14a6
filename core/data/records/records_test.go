package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// texts draws any bytes: most of them text, some with what JSON escapes, some none.
var texts = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x00\"\\\r\n\t\u2028</script>\U0001f600", "caf\xe9", "\xed\xa0\x80", "{\"base64\":\"\"}"}),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))

// fill draws every field of v, whatever fields a record has.
func fill(t *rapid.T, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts.Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(rapid.SliceOf(rapid.Byte()).Draw(t, name))
			if rapid.IntRange(0, 40).Draw(t, "large") == 40 {
				v.SetBytes([]byte(strings.Repeat("x", inline)))
			}
			return
		}
		n := rapid.IntRange(0, 3).Draw(t, name)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), name)
		}
	default:
		t.Fatalf("no rule to draw a %s", v.Type())
	}
}

func drawn(t *rapid.T) []*sdk.Record {
	out := make([]*sdk.Record, rapid.IntRange(1, 4).Draw(t, "records"))
	for i := range out {
		out[i] = new(sdk.Record)
		fill(t, reflect.ValueOf(out[i]).Elem(), "record")
		out[i].ID = fmt.Sprint(i, out[i].ID)
	}
	return out
}

// form is all that a record holds, as one text.
func form(r *sdk.Record) string {
	e := encoder{files: digestOf}
	b, err := e.record(nil, r)
	return fmt.Sprintf("%q %v", b, err)
}

func same(t interface{ Fatalf(string, ...any) }, want, got []*sdk.Record) {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || form(want[i]) != form(got[i]) {
			t.Fatalf("(-written +read)\n%s", cmp.Diff(want, got, cmpopts.EquateEmpty()))
		}
	}
}

func write(path string, recs []*sdk.Record) error {
	w, _, err := Create(path)
	if err != nil {
		return err
	}
	for _, r := range recs {
		if err := w.Append(r); err != nil {
			return err
		}
	}
	return w.Finish()
}

// What is written is read, whatever the record holds.
func TestIdentity(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		recs := drawn(t)
		n++
		path := filepath.Join(dir, fmt.Sprint(n), "r.jsonl"+rapid.SampledFrom([]string{"", ".zst", ".gz"}).Draw(t, "packing"))
		if err := write(path, recs); err != nil {
			t.Fatalf("%v", err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatalf("%v", err)
		}
		same(t, recs, got)
		first, _ := os.ReadFile(path)
		if err := write(path, got); err != nil {
			t.Fatalf("%v", err)
		}
		if second, _ := os.ReadFile(path); string(first) != string(second) {
			t.Fatalf("the same records give other bytes")
		}
	})
}

// A process killed anywhere leaves what its last checkpoint had, and the file that the
// next one finishes is that of one that was never killed.
func TestKilledAnywhere(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		recs := drawn(t)
		n++
		path := filepath.Join(dir, fmt.Sprint(n), "r.jsonl"+rapid.SampledFrom([]string{"", ".zst", ".gz"}).Draw(t, "packing"))
		w, state, err := Create(path)
		if err != nil || state != nil {
			t.Fatalf("state %s, error %v", state, err)
		}
		saved := -1
		for i, r := range recs[:rapid.IntRange(0, len(recs)).Draw(t, "before")] {
			if err := w.Append(r); err != nil {
				t.Fatalf("%v", err)
			}
			if rapid.Bool().Draw(t, "checkpoint") {
				if err := w.Checkpoint(i + 1); err != nil {
					t.Fatalf("%v", err)
				}
				saved = i + 1
			}
		}
		// What was not put on the disk may be there in part.
		w.buffer.Flush()
		w.Close()
		at := int64(0)
		if saved >= 0 {
			c, err := (&Writer{path: path, ids: map[fingerprint]bool{}}).resume()
			if err != nil {
				t.Fatalf("%v", err)
			}
			at = c.Bytes
		}
		f, err := os.OpenFile(partial(path), os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			t.Fatalf("%v", err)
		}
		f.Truncate(at)
		f.Write(rapid.SliceOf(rapid.Byte()).Draw(t, "torn"))
		f.Close()

		w, state, err = Create(path)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if got := string(state); saved >= 0 && got != fmt.Sprint(saved) || saved < 0 && got != "" {
			t.Fatalf("state %s, want %d", state, saved)
		}
		for i, r := range recs {
			err := w.Append(r)
			if i < saved != errors.Is(err, ErrRepeated) {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatalf("%v", err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatalf("%v", err)
		}
		same(t, recs, got)
		if left, _ := filepath.Glob(filepath.Join(dir, fmt.Sprint(n), "r.jsonl*.*[lr]")); len(left) > 1 {
			t.Fatalf("left behind: %v", left)
		}
	})
}

// Records of one tree share it, on the disk and in memory.
func TestTreesAreShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	files := []sdk.File{{Path: "a.py", Data: []byte(strings.Repeat("x = 1\n", 10_000))}, {Path: "run", Data: []byte("#!"), Exec: true}}
	var recs []*sdk.Record
	for i := range 1000 {
		recs = append(recs, &sdk.Record{ID: fmt.Sprint(i), Workspace: sdk.Workspace{Files: files}})
	}
	if err := write(path, recs); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 150*1000 {
		t.Errorf("%v bytes, error %v", info.Size(), err)
	}
	n := 0
	filepath.WalkDir(BlobFolder(path), func(_ string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			n++
		}
		return nil
	})
	if n != 3 {
		t.Errorf("%d blobs, want two files and a tree", n)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, recs, got)
	if &got[0].Workspace.Files[0] != &got[999].Workspace.Files[0] {
		t.Error("the files lie in memory more than once")
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `{"ID":"a"`, `line 1: byte 9: the text ends where ',' was due`},
		{"unknown key", `{"ID":"a","Repro":"x"}`, `line 1: Repro: a record has no such key`},
		{"wrong type", `{"ID":"a","Workspace":{"Files":[{"Path":"a","Exec":1}]}}`, `line 1: Workspace.Files[0].Exec: want true or false, not a number`},
		{"no ID", `{"Problem":"x"}`, `line 1: ID: the record has none`},
		{"no UTF-8", "{\"ID\":\"a\",\"Patch\":\"\xff\"}", `line 1: Patch: byte 19: not UTF-8: byte 0xff`},
		{"half a character", `{"ID":"\ud800"}`, `line 1: ID: byte 7: \ud800 is half a character`},
		{"no tree", `{"ID":"a","Workspace":{"Files":{"tree":"sha256:` + strings.Repeat("0", 64) + `"}}}`, `line 1: Workspace.Files: sha256:` + strings.Repeat("0", 64) + ` is not in`},
		{"tree outside", `{"ID":"a","Workspace":{"Files":{"tree":"sha256:../../etc/passwd"}}}`, `is no digest`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.jsonl")
			if err := os.WriteFile(path, []byte(c.line+"\n"+`{"id":"b","problem":null}`+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var bad *Bad
			if _, err := r.Next(); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if rec, err := r.Next(); err != nil || rec.ID != "b" {
				t.Errorf("after it: %+v, %v", rec, err)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

func TestRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	os.WriteFile(path, []byte("{\"ID\":\"a\"}\n\n{\"ID\":\"a\"}\n"), 0o644)
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), `r.jsonl: line 3: ID: "a" is that of an earlier record, too`) {
		t.Errorf("error %v", err)
	}
}

func TestDamagedBlob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := write(path, []*sdk.Record{{ID: "a", Workspace: sdk.Workspace{Files: []sdk.File{{Path: "f", Data: make([]byte, 5000)}}}}}); err != nil {
		t.Fatal(err)
	}
	filepath.WalkDir(BlobFolder(path), func(p string, d os.DirEntry, _ error) error {
		if i, err := d.Info(); err == nil && i.Size() == 5000 {
			os.WriteFile(p, make([]byte, 4999), 0o644)
		}
		return nil
	})
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "was damaged") {
		t.Errorf("error %v", err)
	}
}

// Records that the sdk's own tests use have not changed their form.
func TestForm(t *testing.T) {
	rec := sdktest.Records()[0]
	b, err := (&encoder{}).record(nil, &rec)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), `{"ID":"`+rec.ID+`","Repo":"`) || !strings.Contains(string(b), `"Workspace":{"Files":[{"Path":"`) {
		t.Errorf("%s", b)
	}
}

// What encoding/json makes of a record is read, too.
func TestPlainJSON(t *testing.T) {
	var b []byte
	var want []*sdk.Record
	for _, r := range sdktest.Records() {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, &r)
		b = append(append(b, line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "r.jsonl")
	os.WriteFile(path, b, 0o644)
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, want, got)
}

func FuzzRead(f *testing.F) {
	rec := sdktest.Records()[0]
	b, _ := (&encoder{}).record(nil, &rec)
	f.Add(b)
	f.Add([]byte(`{"ID":"a","Workspace":{"Files":{"tree":"sha256:00"}},"Patch":{"base64":"/w=="}}`))
	path := filepath.Join(f.TempDir(), "r.jsonl")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			return
		}
		defer r.Close()
		for {
			rec, err := r.Next()
			var bad *Bad
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				return
			}
			again := filepath.Join(t.TempDir(), "r.jsonl")
			if err := write(again, []*sdk.Record{rec}); err != nil {
				t.Fatal(err)
			}
			got, err := Read(again)
			if err != nil {
				t.Fatal(err)
			}
			same(t, []*sdk.Record{rec}, got)
		}
	})
}

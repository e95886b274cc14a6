package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden bytes anew")

// all holds a constructor of every message and a generator of arbitrary ones.
var all = []struct {
	name string
	zero func() Message
	any  *rapid.Generator[Message]
}{
	entry[File](), entry[Change](), entry[Workspace](), entry[Record](), entry[Target](), entry[Mutant](),
	entry[Candidate](), entry[Pair](), entry[Task](), entry[Reference](), entry[Output](), entry[Verdict](),
	entry[Component](), entry[DescribeRequest](), entry[Description](), entry[BuildRequest](), entry[BuildResponse](),
	entry[EvaluateRequest](), entry[JudgeRequest](), entry[JudgeResponse](), entry[Log](), entry[RunRequest](),
	entry[Command](), entry[RunResponse](), entry[ModelRequest](), entry[ModelMessage](), entry[ModelResponse](),
	entry[LogLine](), entry[Empty](),
}

func entry[T any, P message[T]]() struct {
	name string
	zero func() Message
	any  *rapid.Generator[Message]
} {
	return struct {
		name string
		zero func() Message
		any  *rapid.Generator[Message]
	}{
		reflect.TypeFor[T]().Name(),
		func() Message { return P(new(T)) },
		rapid.Map(rapid.Make[T](), func(t T) Message { return P(&t) }),
	}
}

// same ignores what the wire cannot tell apart: an empty list and none, and the
// many NaNs.
var same = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateNaNs()}

func TestRoundTrip(t *testing.T) {
	for _, m := range all {
		t.Run(m.name, rapid.MakeCheck(func(t *rapid.T) {
			in, out := m.any.Draw(t, "message"), m.zero()
			if err := Unmarshal(Marshal(in), out); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(in, out, same); d != "" {
				t.Fatal(d)
			}
			taken := m.zero()
			if err := Take(Marshal(in), taken); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(in, taken, same); d != "" {
				t.Fatal(d)
			}
		}))
	}
}

// stock parses skill.proto.
func stock(t testing.TB) protoreflect.FileDescriptor {
	t.Helper()
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := c.Compile(context.Background(), "skill.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

// TestAgreesWithProtobuf has the usual protobuf implementation read and write the
// same bytes under skill.proto.
func TestAgreesWithProtobuf(t *testing.T) {
	file := stock(t)
	for _, m := range all {
		d := file.Messages().ByName(protoreflect.Name(m.name))
		if d == nil {
			t.Errorf("skill.proto has no message %s", m.name)
			continue
		}
		t.Run(m.name, rapid.MakeCheck(func(t *rapid.T) {
			in, out := m.any.Draw(t, "message"), m.zero()
			b := Marshal(in)
			dyn := dynamicpb.NewMessage(d)
			if err := proto.Unmarshal(b, dyn); err != nil {
				t.Fatalf("stock protobuf refuses our bytes: %v", err)
			}
			if u := unknown(dyn); u != "" {
				t.Fatalf("stock protobuf does not know %s", u)
			}
			theirs, err := proto.MarshalOptions{Deterministic: true}.Marshal(dyn)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b, theirs) {
				t.Fatalf("we write\n%x\nstock protobuf writes\n%x", b, theirs)
			}
			if err := Unmarshal(theirs, out); err != nil {
				t.Fatalf("we refuse stock protobuf's bytes: %v", err)
			}
			if d := cmp.Diff(in, out, same); d != "" {
				t.Fatal(d)
			}
		}))
	}
	if n := file.Messages().Len(); n != len(all) {
		t.Errorf("skill.proto has %d messages, the package %d", n, len(all))
	}
}

// unknown names a message that holds fields which skill.proto does not have.
func unknown(m protoreflect.Message) (name string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil {
			return true
		}
		if !f.IsList() {
			name = unknown(v.Message())
			return name == ""
		}
		for i := range v.List().Len() {
			if name = unknown(v.List().Get(i).Message()); name != "" {
				return false
			}
		}
		return true
	})
	return name
}

// TestFieldsHaveTheirNames sets one field after the other: exactly the field of
// that name must arrive under skill.proto, and no field may lack a number.
func TestFieldsHaveTheirNames(t *testing.T) {
	file := stock(t)
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for _, m := range all {
		d := file.Messages().ByName(protoreflect.Name(m.name))
		typ := reflect.TypeOf(m.zero()).Elem()
		if d.Fields().Len() != typ.NumField() {
			t.Errorf("%s: %d fields in Go, %d in skill.proto", m.name, typ.NumField(), d.Fields().Len())
		}
		for i := range typ.NumField() {
			in := m.zero()
			n := 0
			fill(reflect.ValueOf(in).Elem().Field(i), &n)
			dyn := dynamicpb.NewMessage(d)
			if err := proto.Unmarshal(Marshal(in), dyn); err != nil {
				t.Fatal(err)
			}
			var got []string
			dyn.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				got = append(got, string(f.Name()))
				return true
			})
			if len(got) != 1 || plain(got[0]) != plain(typ.Field(i).Name) {
				t.Errorf("%s.%s arrives as %v", m.name, typ.Field(i).Name, got)
			}
		}
	}
}

// fill sets v and everything below it to values of their own: two elements to a
// list, no zeros.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString("text " + string(rune('a'+*n%26)) + "é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(*n) * -300)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic("no rule for " + v.Kind().String())
	}
}

// TestGolden holds the bytes of the released version still.
func TestGolden(t *testing.T) {
	for _, m := range all {
		in, out := m.zero(), m.zero()
		n := 0
		fill(reflect.ValueOf(in).Elem(), &n)
		got := hex.Dump(Marshal(in))
		name := filepath.Join("testdata", m.name+".hex")
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is written otherwise than released:\n%s", m.name, cmp.Diff(string(want), got))
		}
		if err := Unmarshal(undump(t, string(want)), out); err != nil {
			t.Errorf("%s: the released bytes cannot be read: %v", m.name, err)
		} else if d := cmp.Diff(in, out, same); d != "" {
			t.Errorf("%s: the released bytes are read otherwise:\n%s", m.name, d)
		}
	}
}

// undump reads what hex.Dump wrote.
func undump(t *testing.T, s string) (b []byte) {
	t.Helper()
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "|")
		for _, f := range strings.Fields(line)[1:] {
			x, err := hex.DecodeString(f)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, x...)
		}
	}
	return b
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		into           Message
	}{
		{"field number 0", "00 00", "bad field tag", &Pair{}},
		{"tag cut short", "80", "bad field tag", &Pair{}},
		{"number cut short", "18 80", "field 3: bad number", &Target{}},
		{"number of 11 bytes", "18 ff ff ff ff ff ff ff ff ff ff 01", "field 3: bad number", &Target{}},
		{"text longer than the rest", "0a 05 61", "field 1: says 5 bytes, 1 are left", &Pair{}},
		{"huge length", "0a ff ff ff ff ff ff ff ff ff 01", "field 1: says", &Pair{}},
		{"double cut short", "11 00 00", "field 2: cut short", &Component{}},
		{"fixed32 cut short", "7d 00 00", "field 15: cut short", &Component{}},
		{"group", "0b", "field 1: unknown wire type 3", &Pair{}},
		{"text that is not UTF-8", "0a 01 ff", "field 1: not UTF-8", &Pair{}},
		{"number where a text belongs", "08 01", "field 1: wire type 0, want 2", &Pair{}},
		{"inside of a message", "0a 02 0a 05", "field 1: wire: field 1: says 5 bytes", &RunResponse{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := hex.DecodeString(strings.ReplaceAll(c.in, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if err := Unmarshal(b, c.into); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestUnmarshalSkipsWhatIsNew(t *testing.T) {
	in := Marshal(&Pair{Key: "k", Value: "v"})
	for _, more := range []string{"98060a", "9a0603616263", "99060000000000000000", "9d0600000000"} { // fields 99
		b, _ := hex.DecodeString(more)
		var p Pair
		if err := Unmarshal(slices.Concat(b, in, b), &p); err != nil || p != (Pair{"k", "v"}) {
			t.Errorf("after %s: %+v, %v", more, p, err)
		}
	}
}

// TestMergesLikeProtobuf: the last scalar wins, lists grow, messages merge.
func TestMergesLikeProtobuf(t *testing.T) {
	a := Marshal(&RunRequest{Workspace: Workspace{Dir: "/a", Env: []string{"A=1"}}, Patches: []string{"p"}})
	b := Marshal(&RunRequest{Workspace: Workspace{Dir: "/b", Env: []string{"B=2"}}, Patches: []string{"q"}})
	var got RunRequest
	if err := Unmarshal(append(a, b...), &got); err != nil {
		t.Fatal(err)
	}
	want := RunRequest{Workspace: Workspace{Dir: "/b", Env: []string{"A=1", "B=2"}}, Patches: []string{"p", "q"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMarshalReplacesBadText(t *testing.T) {
	var l Log
	if err := Unmarshal(Marshal(&Log{Output: "a\xffb"}), &l); err != nil || l.Output != "a\uFFFDb" {
		t.Errorf("%q, %v", l.Output, err)
	}
}

// TestUnmarshalIsBounded: two bytes an element would unfold a message of 16 MB to
// gigabytes.
func TestUnmarshalIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		bomb []byte
		into Message
	}{
		{"empty tasks", bytes.Repeat([]byte{0x0a, 0}, 8<<20), &BuildResponse{}},
		{"fields out of order", append(bytes.Repeat([]byte{0x78, 0}, 8<<20), 0x0a, 0), &Pair{}},
	} {
		if err := Unmarshal(c.bomb, c.into); !errors.Is(err, errUnfolds) {
			t.Errorf("%s: error %v, want %v", c.name, err, errUnfolds)
		}
	}
	// The bound leaves what is honest alone: many small elements.
	honest := &RunResponse{Logs: make([]Log, 100_000)}
	for i := range honest.Logs {
		honest.Logs[i] = Log{Output: "ok", Millis: 3}
	}
	if err := Unmarshal(Marshal(honest), new(RunResponse)); err != nil {
		t.Error(err)
	}
}

// TestUnmarshalInAnyOrder: fields may come in any order, and repeated ones keep theirs.
func TestUnmarshalInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := JudgeRequest{Issue: "i", Script: "s", Before: Log{Output: "b", ExitCode: 300}, After: Log{Output: "a", TimedOut: true}}
		for range rapid.IntRange(0, 4).Draw(t, "pairs") {
			r.Config = append(r.Config, Pair{Key: rapid.String().Draw(t, "key"), Value: rapid.String().Draw(t, "value")})
		}
		var parts [][]byte
		for rest := Marshal(&r); len(rest) > 0; {
			_, _, _, n, err := first(rest)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		parts = append(parts, []byte{0xf8, 0x01, 7}) // number 31, which nobody knows
		shuffled := rapid.Permutation(parts).Draw(t, "order")
		want := JudgeRequest{Issue: r.Issue, Script: r.Script, Before: r.Before, After: r.After}
		for _, p := range shuffled {
			var one JudgeRequest
			if err := Unmarshal(p, &one); err != nil {
				t.Fatal(err)
			}
			want.Config = append(want.Config, one.Config...)
		}
		for _, read := range []func([]byte, Message) error{Unmarshal, Take} {
			var got JudgeRequest
			if err := read(bytes.Join(shuffled, nil), &got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(Marshal(&got), Marshal(&want)) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
	})
}

// TestTake: what is taken can be appended to without harm to its neighbour.
func TestTake(t *testing.T) {
	var f File
	if err := Take(append(Marshal(&File{Path: "a", Data: []byte("bc"), Exec: true}), "rest"...)[:9], &f); err != nil {
		t.Fatal(err)
	}
	before := f.Path
	f.Data = append(f.Data, "XYZ"...)
	if f.Path != before || string(f.Data) != "bcXYZ" || !f.Exec {
		t.Errorf("%+v", f)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for i, m := range all {
		in := m.zero()
		n := 0
		fill(reflect.ValueOf(in).Elem(), &n)
		f.Add(uint8(i), Marshal(in))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		m := all[int(which)%len(all)]
		first, second := m.zero(), m.zero()
		err := Unmarshal(b, first)
		if taken := Take(bytes.Clone(b), m.zero()); (taken == nil) != (err == nil) {
			t.Fatalf("%v, taken %v", err, taken)
		}
		if err != nil {
			return
		}
		if err := Unmarshal(Marshal(first), second); err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if d := cmp.Diff(first, second, same); d != "" {
			t.Fatal(d)
		}
	})
}

func TestCapability(t *testing.T) {
	var got []string
	for n := range uint32(7) {
		got = append(got, Capability(n))
	}
	if want := []string{"", "sandbox", "model", "judge", "log", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func raw(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestRoundTrip(t *testing.T) {
	f := &File{Metadata: map[string]string{"format": "pt", "note": "ä\n"}, Tensors: map[string]Tensor{
		"b":      New([]float32{1, -2, 3, float32(math.Inf(1)), 5, 6}, 2, 3),
		"a.bias": New([]float32{0.5}, 1),
		"scalar": New([]float32{7}),
		"empty":  New(nil, 0, 4),
		"i":      {DType: "I64", Shape: []int{1}, Data: make([]byte, 8)},
	}}
	var one, two bytes.Buffer
	if err := f.Encode(&one); err != nil {
		t.Fatal(err)
	}
	if err := f.Encode(&two); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Fatal("two encodings of one file differ")
	}
	if n := binary.LittleEndian.Uint64(one.Bytes()); n%8 != 0 {
		t.Errorf("header length %d is no multiple of 8", n)
	}
	got, err := Decode(one.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Metadata, f.Metadata) {
		t.Errorf("metadata %v", got.Metadata)
	}
	if len(got.Tensors) != len(f.Tensors) {
		t.Fatalf("%d tensors, want %d", len(got.Tensors), len(f.Tensors))
	}
	for n, w := range f.Tensors {
		g := got.Tensors[n]
		if g.DType != w.DType || g.Elements() != w.Elements() || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("%s: got %+v, want %+v", n, g, w)
		}
	}
	x := make([]float32, 6)
	if err := got.Tensors["b"].Float32s(x); err != nil || x[1] != -2 {
		t.Errorf("b = %v, %v", x, err)
	}
}

func TestNarrowTypes(t *testing.T) {
	h := Tensor{DType: F16, Shape: []int{6}, Data: []byte{0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x7c, 0xff, 0x7b, 0x01, 0x80}}
	got := make([]float32, 6)
	if err := h.Float32s(got); err != nil {
		t.Fatal(err)
	}
	want := []float32{1, -2, 1.0 / (1 << 24), float32(math.Inf(1)), 65504, -1.0 / (1 << 24)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("F16: %v, want %v", got, want)
	}
	b := Tensor{DType: BF16, Shape: []int{2}, Data: []byte{0x80, 0x3f, 0x20, 0xc0}}
	got = got[:2]
	if err := b.Float32s(got); err != nil || got[0] != 1 || got[1] != -2.5 {
		t.Errorf("BF16: %v, %v", got, err)
	}
	if err := (Tensor{DType: "I32", Shape: []int{2}, Data: make([]byte, 8)}).Float32s(got); err == nil || !strings.Contains(err.Error(), "I32") {
		t.Errorf("I32: %v", err)
	}
	if err := b.Float32s(make([]float32, 3)); err == nil {
		t.Error("a wrong length is accepted")
	}
}

func TestBadFiles(t *testing.T) {
	good := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":          {nil, "too few"},
		"cut header":     {raw(good, "12345678")[:20], "cut off"},
		"huge header":    {binary.LittleEndian.AppendUint64(nil, 1<<60), "limit"},
		"not JSON":       {raw("hello", ""), "header"},
		"array":          {raw("[]", ""), "not a JSON object"},
		"text after":     {raw(good+"x", "12345678"), "after"},
		"twice":          {raw(`{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, ""), `"w" occurs twice`},
		"dtype":          {raw(`{"w":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}}`, "12345678"), `"F33"`},
		"unknown field":  {raw(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}`, "12345678"), `"w"`},
		"outside":        {raw(good, "1234"), "outside"},
		"negative shape": {raw(`{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, "12345678"), "shape"},
		"overflow":       {raw(`{"w":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}}`, ""), "shape"},
		"size":           {raw(`{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, "12345678"), "takes 12 bytes"},
		"offsets":        {raw(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}}`, "12345678"), "data_offsets"},
		"gap":            {raw(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"), "gaps"},
		"left over":      {raw(good, "123456789"), "no tensor"},
		"metadata":       {raw(`{"__metadata__":{"a":1}}`, ""), "__metadata__"},
		"not UTF-8":      {raw("{\"\xff\":1}", ""), "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestReadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: %v", err)
	}
}

func TestEncodeRefusesWrongSize(t *testing.T) {
	f := &File{Tensors: map[string]Tensor{"w": {DType: F32, Shape: []int{2}, Data: make([]byte, 4)}}}
	if err := f.Encode(&bytes.Buffer{}); err == nil {
		t.Error("a tensor with too few bytes was written")
	}
}

// What decodes also encodes, and decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add(raw(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, "12345678"))
	f.Add(raw(`{"__metadata__":{"a":"b"},"e":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}}   `, ""))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := Decode(b)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := x.Encode(&out); err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		y, err := Decode(out.Bytes())
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		if len(x.Tensors) != len(y.Tensors) || len(x.Metadata) != len(y.Metadata) {
			t.Fatal("round trip loses entries")
		}
		for n, v := range x.Tensors {
			if !bytes.Equal(v.Data, y.Tensors[n].Data) {
				t.Fatalf("tensor %q changed", n)
			}
			if v.DType == F32 || v.DType == F16 || v.DType == BF16 {
				if err := v.Float32s(make([]float32, v.Elements())); err != nil {
					t.Fatalf("tensor %q: %v", n, err)
				}
			}
		}
	})
}

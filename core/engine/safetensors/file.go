// Package safetensors reads and writes Hugging Face's tensor files: eight bytes of
// header length (little endian), a JSON header that names each tensor's type, shape
// and byte range, then the data without gaps.
//
// Source of the format: https://github.com/huggingface/safetensors, "Format".
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/diag"
)

// maxHeader is the longest header accepted, in bytes, as in the reference reader.
const maxHeader = 100_000_000

// DType is an element type as the format spells it.
type DType string

// The types that this package can turn into float32.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// width gives the bytes of an element, 0 for a type outside the format.
func (d DType) width() int {
	switch d {
	case "F64", "I64", "U64", "C64":
		return 8
	case F32, "I32", "U32":
		return 4
	case F16, BF16, "I16", "U16":
		return 2
	case "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3":
		return 1
	}
	return 0
}

// Tensor is one named array. Data is little endian, row-major, and belongs to the
// file it was read from.
type Tensor struct {
	DType DType
	Shape []int
	Data  []byte
}

// File is a whole file in memory. Metadata is the header's free text.
type File struct {
	Metadata map[string]string
	Tensors  map[string]Tensor
}

// New wraps float32 values of the given shape, copying them.
func New(values []float32, shape ...int) Tensor {
	b := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return Tensor{DType: F32, Shape: shape, Data: b}
}

// Elements is the product of the shape; 1 for a scalar.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Float32s fills dst, which must have exactly Elements entries, from a tensor of
// type F32, F16 or BF16.
func (t Tensor) Float32s(dst []float32) error {
	if len(dst) != t.Elements() {
		return fmt.Errorf("shape %v has %d elements, want %d", t.Shape, t.Elements(), len(dst))
	}
	switch t.DType {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = half(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	default:
		return fmt.Errorf("type %s is not read as float32; F32, F16 and BF16 are", t.DType)
	}
	return nil
}

// half widens an IEEE 754 binary16.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch {
	case exp == 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	case exp == 0: // zero or subnormal: frac·2⁻²⁴
		f := float32(frac) / (1 << 24)
		if sign != 0 {
			return -f
		}
		return f
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Read loads the file at path. Errors are [diag.Error] of KindData that name path,
// and the tensor where one is at fault; a missing file satisfies
// errors.Is(err, fs.ErrNotExist).
func Read(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read tensors", path, err)
	}
	f, err := Decode(b)
	return f, diag.Wrap(diag.KindData, "read tensors", path, err)
}

// Decode parses a whole file. The tensors' data are slices of b.
func Decode(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%d bytes are too few for a header length", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader {
		return nil, fmt.Errorf("header length %d is above the limit of %d", n, maxHeader)
	}
	if n > uint64(len(b)-8) {
		return nil, fmt.Errorf("header length %d, but only %d bytes follow: the file is cut off or of another kind", n, len(b)-8)
	}
	header, data := b[8:8+n], b[8+n:]
	if !utf8.Valid(header) {
		return nil, errors.New("the header is not UTF-8")
	}
	entries, err := object(header)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	f := &File{Metadata: map[string]string{}, Tensors: map[string]Tensor{}}
	type span struct {
		name     string
		from, to int
	}
	var spans []span
	for name, raw := range entries {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &f.Metadata); err != nil {
				return nil, fmt.Errorf("header: __metadata__: %w", err)
			}
			continue
		}
		var e struct {
			DType   DType `json:"dtype"`
			Shape   []int `json:"shape"`
			Offsets []int `json:"data_offsets"`
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		w := e.DType.width()
		if w == 0 {
			return nil, fmt.Errorf("tensor %q: unknown dtype %q", name, e.DType)
		}
		if len(e.Offsets) != 2 {
			return nil, fmt.Errorf("tensor %q: data_offsets has %d entries, want 2", name, len(e.Offsets))
		}
		from, to := e.Offsets[0], e.Offsets[1]
		if from < 0 || to < from || to > len(data) {
			return nil, fmt.Errorf("tensor %q: bytes %d to %d lie outside the %d of data", name, from, to, len(data))
		}
		size := w
		for _, dim := range e.Shape {
			if dim < 0 || dim > 0 && size > math.MaxInt/dim {
				return nil, fmt.Errorf("tensor %q: impossible shape %v", name, e.Shape)
			}
			size *= dim
		}
		if size != to-from {
			return nil, fmt.Errorf("tensor %q: shape %v of %s takes %d bytes, data_offsets span %d", name, e.Shape, e.DType, size, to-from)
		}
		f.Tensors[name] = Tensor{DType: e.DType, Shape: e.Shape, Data: data[from:to:to]}
		spans = append(spans, span{name, from, to})
	}
	sort.Slice(spans, func(i, j int) bool {
		a, b := spans[i], spans[j]
		if a.from != b.from {
			return a.from < b.from
		}
		if a.to != b.to {
			return a.to < b.to
		}
		return a.name < b.name
	})
	at := 0
	for _, s := range spans {
		if s.from != at {
			return nil, fmt.Errorf("tensor %q: begins at byte %d where %d was expected: data must neither overlap nor leave gaps", s.name, s.from, at)
		}
		at = s.to
	}
	if at != len(data) {
		return nil, fmt.Errorf("%d bytes of data belong to no tensor", len(data)-at)
	}
	return f, nil
}

// object splits a JSON object and refuses a key that occurs twice.
func object(b []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // the decoder admits nothing else here
		if _, ok := out[key]; ok {
			return nil, fmt.Errorf("key %q occurs twice", key)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		out[key] = raw
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if rest := strings.Trim(string(b[d.InputOffset():]), " \t\r\n\x00"); rest != "" {
		return nil, errors.New("text after the JSON object")
	}
	return out, nil
}

// Encode writes f: tensors in the order of their names, the header padded with
// blanks so that the data begin at a multiple of eight. The bytes depend on f alone.
func (f *File) Encode(w io.Writer) error {
	names := make([]string, 0, len(f.Tensors))
	for n := range f.Tensors {
		names = append(names, n)
	}
	sort.Strings(names)
	var h bytes.Buffer
	h.WriteByte('{')
	entry := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if h.Len() > 1 {
			h.WriteByte(',')
		}
		h.Write(k)
		h.WriteByte(':')
		h.Write(v)
		return nil
	}
	if len(f.Metadata) > 0 {
		if err := entry("__metadata__", f.Metadata); err != nil {
			return err
		}
	}
	at := 0
	for _, n := range names {
		t := f.Tensors[n]
		if t.DType.width()*t.Elements() != len(t.Data) || n == "__metadata__" {
			return fmt.Errorf("tensor %q: %s of shape %v with %d bytes cannot be written", n, t.DType, t.Shape, len(t.Data))
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		err := entry(n, struct {
			DType   DType  `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{t.DType, shape, [2]int{at, at + len(t.Data)}})
		if err != nil {
			return err
		}
		at += len(t.Data)
	}
	h.WriteByte('}')
	for h.Len()%8 != 0 {
		h.WriteByte(' ')
	}
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(h.Len()))
	if _, err := w.Write(n[:]); err != nil {
		return err
	}
	if _, err := w.Write(h.Bytes()); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := w.Write(f.Tensors[name].Data); err != nil {
			return err
		}
	}
	return nil
}

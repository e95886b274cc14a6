package registry

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// ManifestSection is the custom section in which a module carries its plugin.toml.
const ManifestSection = "valence.manifest"

var magic = []byte("\x00asm\x01\x00\x00\x00")

// Section gives the contents of the first custom section called name. The error
// says that code is no WASM 1 module; what is inside the other sections is not looked at.
func Section(code []byte, name string) (contents []byte, found bool, err error) {
	if len(code) < len(magic) || !slices.Equal(code[:len(magic)], magic) {
		return nil, false, errors.New("it does not start with WASM's magic number and version 1")
	}
	for b := code[len(magic):]; len(b) > 0; {
		id := b[0]
		body, rest, ok := prefixed(b[1:])
		if !ok {
			return nil, false, errors.New("it is cut short")
		}
		if id == 0 {
			n, data, ok := prefixed(body)
			if !ok {
				return nil, false, errors.New("a custom section has no name")
			}
			if string(n) == name {
				return data, true, nil
			}
		}
		b = rest
	}
	return nil, false, nil
}

// WithSection appends a custom section to code, which runs as before.
func WithSection(code []byte, name string, contents []byte) []byte {
	body := binary.AppendUvarint(nil, uint64(len(name)))
	body = append(append(body, name...), contents...)
	code = append(slices.Clone(code), 0)
	return append(binary.AppendUvarint(code, uint64(len(body))), body...)
}

// prefixed splits b after the bytes whose number it starts with.
func prefixed(b []byte) (body, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > math.MaxUint32 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}

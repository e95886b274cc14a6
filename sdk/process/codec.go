package process

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec passes messages of type *[]byte as they are, because package wire has made
// them, and hands those of go-plugin's own services to gRPC's codec.
type Codec struct{}

// Name is that of protobuf, whose bytes these are.
func (Codec) Name() string { return proto.Name }

// Marshal keeps the bytes without copying them.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(*[]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
	}
	return other().Marshal(v)
}

// Unmarshal gives bytes of the receiver's own.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if b, ok := v.(*[]byte); ok {
		*b = data.Materialize()
		return nil
	}
	return other().Unmarshal(data, v)
}

// other is the codec that importing encoding/proto registers.
func other() encoding.CodecV2 {
	c := encoding.GetCodecV2(proto.Name)
	if c == nil {
		panic(fmt.Sprintf("process: gRPC has no codec %q", proto.Name))
	}
	return c
}

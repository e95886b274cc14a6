// Command generate makes knq/*.pb.go from skill.proto, with the generator that the
// library brings. It is run in the folder of skill.proto.
//
//	go run ./generate
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source  = "skill.proto"
	library = "github.com/knqyf263/go-plugin"
)

func main() {
	if err := generate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate does what protoc does for its plugins.
func generate(ctx context.Context) error {
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}, SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := c.Compile(ctx, source)
	if err != nil {
		return err
	}
	in, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
	})
	if err != nil {
		return err
	}
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", library).Output()
	if err != nil {
		return err
	}
	// By its own module: it needs an older vtprotobuf than the other peers do.
	cmd := exec.CommandContext(ctx, "go", "run", library+"/cmd/protoc-gen-go-plugin@"+string(bytes.TrimSpace(version)))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var r pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &r); err != nil {
		return err
	}
	if r.Error != nil {
		return errors.New(*r.Error)
	}
	for _, f := range r.File {
		if err := os.WriteFile(f.GetName(), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

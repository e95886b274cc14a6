//go:build deps

// Package deps pins requirements until the code that needs them lands.
package deps
import (
 _ "github.com/spf13/cobra"
 _ "github.com/BurntSushi/toml"
 _ "github.com/pelletier/go-toml/v2/unstable"
 _ "github.com/tetratelabs/wazero"
 _ "github.com/bluekeyes/go-gitdiff/gitdiff"
 _ "github.com/klauspost/compress/zstd"
 _ "github.com/rogpeppe/go-internal/testscript"
 _ "pgregory.net/rapid"
 _ "github.com/google/go-cmp/cmp"
 _ "golang.org/x/sync/errgroup"
 _ "golang.org/x/term"
 _ "golang.org/x/sys/unix"
 _ "golang.org/x/net/bpf"
 _ "github.com/elastic/go-seccomp-bpf"
 _ "gorgonia.org/gorgonia"
 _ "gorgonia.org/tensor"
 _ "github.com/chewxy/hm"
 _ "gonum.org/v1/gonum/blas/gonum"
 _ "google.golang.org/protobuf/types/dynamicpb"
 _ "github.com/bufbuild/protocompile"
 _ "go4.org/unsafe/assume-no-moving-gc"
)

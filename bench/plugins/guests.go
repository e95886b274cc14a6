package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/valence-rl/valence/sdk/python/venv"
)

// guests are the built plugins, by path.
type guests struct {
	wasm, native, knq, extism, hashicorp string
	python                               string // interpreter with the SDK; "" if there is none
	script                               string // for it
	cache                                string // folder for compiled WASM
}

// build compiles the guests into dir.
func build(ctx context.Context, dir string) (guests, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	g := guests{wasm: at("valence.wasm"), native: at("valence"), knq: at("knq.wasm"), extism: at("extism.wasm"),
		hashicorp: at("hashicorp"), cache: at("cache")}
	for _, b := range []struct {
		out, guest string
		wasm       bool
	}{{g.wasm, "valence", true}, {g.native, "valence", false}, {g.knq, "knq", true}, {g.extism, "extism", true}, {g.hashicorp, "hashicorp", false}} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.out, "./guest/"+b.guest)
		if b.wasm {
			cmd.Args = slices.Insert(cmd.Args, 2, "-buildmode=c-shared")
			cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		}
		if said, err := cmd.CombinedOutput(); err != nil {
			return g, fmt.Errorf("build guest %s: %w\n%s", b.guest, err, said)
		}
	}
	var err error
	if g.script, err = filepath.Abs(filepath.Join("guest", "python", "skill.py")); err != nil {
		return g, err
	}
	bin, err := venv.Bin(ctx, filepath.Join("..", "..", "sdk", "python"))
	if errors.Is(err, venv.ErrNoPython) {
		return g, nil
	}
	g.python = filepath.Join(bin, "python3")
	return g, err
}

// Command logits dumps the embedded engine's logits for a policy folder, so that
// bench/interop/logits.py can compare them with those of transformers.
//
//	go run ./bench/interop/logits -new -kv 2 DIR > dump.json
//	python3 bench/interop/logits.py DIR dump.json [RESAVED]
//	go run ./bench/interop/logits RESAVED | cmp - dump.json
//
// With -new it first makes DIR: a policy of the default size, trained for a few rough
// steps so that no weight, norm gains included, is left as it was initialised.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/gorgonia"
)

func main() {
	fresh := flag.Bool("new", false, "make the folder first")
	kv := flag.Int("kv", 4, "key heads of a new policy: 1, 2 or 4")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *fresh, *kv); err != nil {
		fmt.Fprintln(os.Stderr, "interop logits:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir string, fresh bool, kv int) error {
	if dir == "" {
		return fmt.Errorf("name a policy folder")
	}
	if fresh {
		if err := create(dir, kv); err != nil {
			return err
		}
	}
	e, err := gorgonia.Open(dir, gorgonia.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	var dump struct {
		Tokens [][]int       `json:"tokens"`
		Logits [][][]float32 `json:"logits"`
	}
	i := e.Info()
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 40, min(130, i.MaxContext)} {
		tokens := sequence(r, n, i.Vocab)
		logits, err := e.Logits(tokens)
		if err != nil {
			return err
		}
		dump.Tokens, dump.Logits = append(dump.Tokens, tokens), append(dump.Logits, logits)
	}
	return json.NewEncoder(out).Encode(dump)
}

func sequence(r *rand.Rand, n, vocab int) []int {
	tokens := make([]int, n)
	for i := range tokens {
		tokens[i] = r.IntN(vocab)
	}
	return tokens
}

func create(dir string, kv int) error {
	c := gorgonia.DefaultConfig()
	c.KVHeads = kv
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := gorgonia.Create(dir, c, 1); err != nil {
		return err
	}
	e, err := gorgonia.Open(dir, gorgonia.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	ctx := context.Background()
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		d := engine.Datum{Tokens: sequence(r, 200, c.Vocab)}
		for range 199 {
			d.Weights = append(d.Weights, 1.0/199)
		}
		if _, err := e.ForwardBackward(ctx, []engine.Datum{d}, engine.Loss{Kind: engine.CrossEntropy}); err != nil {
			return err
		}
		if _, err := e.OptimStep(ctx, engine.AdamParams{LearningRate: 0.02}); err != nil {
			return err
		}
	}
	return e.Save(dir)
}

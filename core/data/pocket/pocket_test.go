package pocket

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"testing"
)

// python is a Runner on this machine's own python3.
func python(ctx context.Context, script string, stdin []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "python3", "-I", "-S", "-c", script)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return out.Bytes(), nil
}

func BenchmarkGenerate(b *testing.B) {
	for _, shape := range []string{ShapeModule, ShapeRepository} {
		b.Run(shape, func(b *testing.B) {
			for b.Loop() {
				items, err := Generate(b.Context(), python, Options{Seed: 1, Count: 2048, Split: SplitTrain, Shape: shape})
				if err != nil {
					b.Fatal(err)
				}
				_ = items
			}
		})
	}
}

func TestFamilies(t *testing.T) {
	w, err := newWorld(Options{Split: SplitUnseen})
	if err != nil {
		t.Fatal(err)
	}
	n, held := 0, 0
	for _, f := range w.families {
		t.Log(f.id, len(f.mutations))
		for _, m := range f.mutations {
			n++
			if m.heldOut {
				held++
			}
			t.Log("    ", m)
		}
	}
	t.Log(n, held, len(w.families))
}

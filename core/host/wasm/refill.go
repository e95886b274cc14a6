package wasm

import (
	"context"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The function that a metered guest calls when its count has run out.
const (
	meterModule   = "valence"
	meterFunction = "refill"
)

// budget is how many instructions a guest computes between two calls of refill:
// a few milliseconds at most, a tenth of one as a rule.
const budget = 1 << 20

// interrupted ends a guest whose context has ended; raised as a panic.
type interrupted struct{ cause error }

func (i interrupted) Error() string { return "interrupted: " + i.cause.Error() }

// linkRefill defines the function in r. In it the garbage collector can stop the
// goroutine, which it cannot in the guest, and others get their turn: else guests that
// compute on all cores leave the host a hundredth of a second's wait for each step.
func linkRefill(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(meterModule)
	b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, s []uint64) {
		if ctx.Err() != nil {
			panic(interrupted{context.Cause(ctx)})
		}
		runtime.Gosched()
		s[0] = budget
	}), nil, []api.ValueType{api.ValueTypeI64}).Export(meterFunction)
	_, err := b.Instantiate(ctx)
	return err
}

// Package ask is for plugins that ask the run's model: it fences what others wrote,
// asks for one JSON value, reads it strictly and gives a bad answer one more chance.
//
// It is part of the guest: standard library only, and little of that.
package ask

import (
	"context"
	"fmt"

	"github.com/valence-rl/valence/sdk"
)

// Malformed is an answer that is not what was asked for, twice. It is the model's
// failure: what it means is the asker's to say, but never a verdict.
type Malformed struct {
	Text  string // the second answer
	Cause error
}

func (e *Malformed) Error() string { return "the model gave no usable answer: " + e.Cause.Error() }

// Unwrap gives the cause.
func (e *Malformed) Unwrap() error { return e.Cause }

// JSON puts a question whose answer is one JSON value, hands that value to read and
// gives what read makes of it. An answer that is not JSON or that read refuses is
// shown to the model once more with the reason. The error is then a *[Malformed];
// every other error is the host's and to be passed on as it is.
func JSON[T any](ctx context.Context, h sdk.Host, q *sdk.ModelRequest, read func(any) (T, error)) (T, error) {
	first := *q
	for again := false; ; again = true {
		var none T
		a, err := h.Model(ctx, &first)
		if err != nil {
			return none, err
		}
		if len(a.Texts) == 0 {
			return none, fmt.Errorf("ask model: the host gave no text")
		}
		text := a.Texts[0]
		v, err := Parse(text)
		if err == nil {
			t, bad := read(v)
			if bad == nil {
				return t, nil
			}
			err = bad
		}
		if again {
			return none, &Malformed{text, err}
		}
		first.Messages = append(q.Messages[:len(q.Messages):len(q.Messages)],
			sdk.ModelMessage{Role: "assistant", Content: Cut(text, 4000)},
			sdk.ModelMessage{Role: "user", Content: "That is not the answer in the form asked for: " + err.Error() +
				". Answer again, with the one JSON object and nothing before or after it."})
	}
}

package run

import (
	"fmt"

	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/chat"
	"github.com/valence-rl/valence/core/transcript"
)

// sample is a sequence of tokens to imitate.
type sample struct {
	tokens  []int
	weights []float32 // of the targets, before normalisation
	learnt  int       // targets that are the policy's own
}

// renderer makes samples of transcripts for one tokenizer.
type renderer struct {
	voice      *chat.Brief
	digest     string // of the tokenizer
	vocabulary int
	context    float32 // weight of what the policy reads; its own tokens weigh 1
	room       int     // tokens that a sequence may have

	byTokens int // transcripts whose own token ids were used
	asides   int // turns whose text beside a call was left out
}

// render gives a transcript's samples: by the token ids it has, if they are of this
// tokenizer, else by rendering its text. A turn that could not be read, or was cut,
// weighs as what is read. The error says why there are none.
func (r *renderer) render(t *transcript.Transcript) ([]sample, error) {
	var out []sample
	asides, byTokens := 0, 0
	if len(t.Sequences) > 0 && t.Tokenizer == r.digest {
		byTokens = 1
		for i := range t.Sequences {
			x, err := r.recorded(&t.Sequences[i])
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
	} else {
		x, n, err := r.written(t)
		if err != nil {
			return nil, err
		}
		out, asides = append(out, x), n
	}
	learnt := 0
	for i := range out {
		if len(out[i].tokens) > r.room {
			return nil, fmt.Errorf("longer than policy.max_context, %d tokens", r.room)
		}
		out[i].weights = out[i].weights[1:]
		learnt += out[i].learnt
	}
	if learnt == 0 {
		return nil, fmt.Errorf("no turn to learn from")
	}
	r.byTokens += byTokens
	r.asides += asides
	return out, nil
}

func (x *sample) add(ids []int, learnt bool, context float32) {
	weight := context
	if learnt {
		weight = 1
		x.learnt += len(ids)
	}
	for _, id := range ids {
		x.tokens = append(x.tokens, id)
		x.weights = append(x.weights, weight)
	}
}

func (r *renderer) recorded(q *transcript.Sequence) (sample, error) {
	var x sample
	for i, id := range q.Tokens {
		if id >= r.vocabulary {
			return x, fmt.Errorf("token id %d, and the tokenizer has %d tokens", id, r.vocabulary)
		}
		x.add(q.Tokens[i:i+1], q.Learnt[i], r.context)
	}
	return x, nil
}

// written renders a transcript's text; asides counts the turns that lost some.
func (r *renderer) written(t *transcript.Transcript) (x sample, asides int, err error) {
	x.add(r.voice.Start(t.System, t.Prompt), false, r.context)
	for i := range t.Turns {
		turn := &t.Turns[i]
		if turn.Full {
			break
		}
		said := policy.Turn{Text: turn.Text, Call: turn.Call}
		if turn.Learnt() {
			if turn.Call != nil && turn.Text != "" {
				said.Text = ""
				asides++
			}
			if err := r.voice.Check(said); err != nil {
				return x, 0, fmt.Errorf("turn %d: %w", i+1, err)
			}
		}
		x.add(r.voice.Reply(said), turn.Learnt(), r.context)
		if i < len(t.Turns)-1 {
			x.add(r.voice.Observe(turn.Observation), false, r.context)
		}
	}
	return x, asides, nil
}

package transcript

import (
	"errors"
	"testing"

	"github.com/valence-rl/valence/core/data/rows"
)

// Whatever stands in a row, it is a conversation that can be played and learnt from, or
// an error that says where it goes wrong.
func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"schema_version":"ATIF-v1.7","agent":{"name":"a","version":"1","extra":{"tokenizer":"t"}},"steps":[{"step_id":1,"source":"user","message":"x"},{"step_id":2,"source":"agent","message":"","tool_calls":[{"function_name":"bash","arguments":{"command":"ls","n":1e99}}],"metrics":{"prompt_token_ids":[1],"completion_token_ids":[2]}}],"extra":{"task":"a/b","end":"max_context"}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},{"role":"tool","content":"a","tool_call_id":"c"},{"role":"assistant","content":"?"},{"role":"user","content":"Error: x"},{"role":"assistant","content":""}],"score":1,"sequences":[{"token_ids":[1,2],"loss_mask":[0,1]}]}`))
	f.Add([]byte(`{"id":"e","outcome":"sandbox","error":"died","trajectory":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := rows.Object(b)
		if err != nil {
			return
		}
		got, err := columnsOf(fields).transcript(b)
		if err != nil {
			var at *FieldError
			if !errors.As(err, &at) || at.Text == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		if got.Lost == "" && len(got.Turns) == 0 {
			t.Fatalf("%+v", got)
		}
		for i := range got.Turns {
			turn := &got.Turns[i]
			if turn.Call != nil && (turn.Malformed != "" || turn.Full) || turn.Malformed != "" && turn.Full {
				t.Fatalf("%+v", turn)
			}
			if i < len(got.Turns)-1 && turn.Call == nil && turn.Malformed == "" {
				t.Fatalf("a turn after the final message: %+v", got.Turns)
			}
		}
		for _, s := range got.Sequences {
			if len(s.Tokens) != len(s.Learnt) {
				t.Fatalf("%+v", s)
			}
		}
	})
}

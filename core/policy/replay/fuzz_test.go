package replay

import "testing"

func FuzzATIF(f *testing.F) {
	f.Add([]byte(`{"schema_version":"ATIF-v1.7","steps":[{"step_id":1,"source":"user","message":"x"},{"step_id":2,"source":"agent","message":"","tool_calls":[{"function_name":"bash","arguments":{"command":"ls","n":1e99}}]}],"extra":{"task":"a/b","end":"max_context"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, r, err := readATIF(b)
		if err != nil {
			return
		}
		if key == "" || r.lost == "" && len(r.turns) == 0 {
			t.Fatalf("%q, %+v", key, r)
		}
		next := r.play()
		for range r.turns {
			turn, err := next("")
			if err != nil || turn.Call != nil && (turn.Malformed != "" || turn.Full) || turn.Malformed != "" && turn.Full {
				t.Fatalf("%+v, %v", turn, err)
			}
		}
		if _, err := next(""); err == nil {
			t.Fatal("a turn after the last")
		}
	})
}

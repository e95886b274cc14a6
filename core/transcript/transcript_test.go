package transcript_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/rollout"
	"github.com/valence-rl/valence/core/transcript"
	"github.com/valence-rl/valence/sdk"
)

// text draws what stands in conversations: any characters, and what formats trip over.
func text() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "Error: ", "a\r\nb", "</s>", "\u2028", `{"a": 1}`, "null", "é", "007"}))
}

func call() *rapid.Generator[*policy.Call] {
	return rapid.Custom(func(t *rapid.T) *policy.Call {
		c := &policy.Call{Tool: "bash", Arguments: map[string]string{"command": text().Draw(t, "command")}}
		if rapid.Bool().Draw(t, "edits") {
			command := rapid.SampledFrom([]string{"view", "create", "replace", "insert"}).Draw(t, "edit")
			c.Tool, c.Arguments = "str_replace", map[string]string{"command": command, "path": text().Draw(t, "path")}
			for _, name := range policy.StrReplaceArguments[command] {
				c.Arguments[name] = text().Draw(t, name)
			}
			if command == "insert" && rapid.Bool().Draw(t, "number") {
				c.Arguments["insert_line"] = fmt.Sprint(rapid.IntRange(-1, 999).Draw(t, "line"))
			}
		}
		return c
	})
}

// episode draws what a rollout stores: turns of each kind, with tokens or without.
func episode() *rapid.Generator[*journal.Episode] {
	return rapid.Custom(func(t *rapid.T) *journal.Episode {
		tr := &rollout.Trajectory{
			ID: "e" + fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "id")), Policy: "p", End: rollout.Submitted,
			Task: &sdk.Task{Key: "repro/one", System: text().Draw(t, "system"), Prompt: text().Draw(t, "prompt")},
		}
		tokens := rapid.Bool().Draw(t, "tokens")
		if tokens {
			tr.Tokenizer = "sha256:t"
		}
		var seen []int
		ids := rapid.SliceOfN(rapid.IntRange(0, 500), 1, 4)
		n := rapid.IntRange(1, 5).Draw(t, "turns")
		for i := range n {
			var turn rollout.Turn
			turn.Text, turn.Reasoning = text().Draw(t, "text"), text().Draw(t, "reasoning")
			switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
			case i == n-1 && kind == 0:
				turn.Text, turn.Full = "cut", true
				tr.End = rollout.MaxContext
			case i == n-1:
			case kind == 0:
				turn.Malformed = "why"
				turn.Observation = "Error: why"
			default:
				turn.Call = call().Draw(t, "call")
				turn.Call.ID = policy.CallID(i + 1)
				turn.Observation = text().Draw(t, "observation")
			}
			if tokens {
				if rapid.IntRange(0, 9).Draw(t, "forgets") == 0 {
					seen = nil
				}
				turn.Context = slices.Concat(seen, ids.Draw(t, "context"))
				turn.Tokens = ids.Draw(t, "sampled")
				turn.Logprobs, turn.Versions = make([]float32, len(turn.Tokens)), make([]int, len(turn.Tokens))
				seen = slices.Concat(turn.Context, turn.Tokens)
			}
			tr.Turns = append(tr.Turns, turn)
		}
		return &journal.Episode{
			ID: tr.ID, Task: tr.Task.Key, Skill: "repro", Policy: "p", End: string(tr.End), Outcome: journal.Scored, Score: 1,
			Reason: "because", Plugins: map[string]string{"judge": "sha256:j"}, Trajectory: tr.ATIF(),
		}
	})
}

// written gives files of episodes in every form.
func written(t require, dir string, episodes []*journal.Episode) []string {
	var paths []string
	for _, f := range []struct{ form, name string }{
		{"messages", "a.jsonl"}, {"messages", "b.jsonl.zst"}, {"messages", "c.jsonl.gz"}, {"atif", "d.jsonl"}, {"atif", "folder"}, {"parquet", "e.parquet"},
	} {
		path := filepath.Join(dir, f.name)
		w, err := transcript.Create(f.form, path, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range episodes {
			if err := w.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		w.Discard()
		paths = append(paths, path)
	}
	stored := filepath.Join(dir, "f.episodes.jsonl.zst")
	if err := journal.WriteEpisodes(stored, func(yield func(*journal.Episode, error) bool) {
		for _, e := range episodes {
			if !yield(e, nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return append(paths, stored)
}

type require interface{ Fatal(args ...any) }

func read(t require, path string) []*transcript.Transcript {
	files, err := transcript.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []*transcript.Transcript
	for _, file := range files {
		for f := range transcript.Read(file) {
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			out = append(out, f.Transcript)
		}
	}
	return out
}

// Whatever happened, every form gives it back: the turns, the answers, the tokens and
// which of them are to be learnt.
func TestEveryFormGivesItBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		episodes := rapid.SliceOfN(episode(), 1, 4).Draw(r, "episodes")
		var want []*transcript.Transcript
		for _, e := range episodes {
			x, err := transcript.FromEpisode(e)
			if err != nil {
				r.Fatal(err)
			}
			want = append(want, x)
		}
		dir, err := os.MkdirTemp("", "forms-*")
		if err != nil {
			r.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for _, path := range written(r, dir, episodes) {
			got := read(r, path)
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(transcript.Transcript{}, "Stored", "Tools", "Tokenizer")); d != "" {
				r.Fatalf("%s: %s", filepath.Base(path), d)
			}
			for i := range got {
				if len(got[i].Sequences) > 0 && got[i].Tokenizer != "sha256:t" {
					r.Fatalf("%s: tokenizer %q", path, got[i].Tokenizer)
				}
			}
		}
	})
}

// The tokens of a turn that could not be read are in the sequence, and not to be learnt.
func TestSequences(t *testing.T) {
	turn := func(context, tokens []int, t policy.Turn) rollout.Turn {
		t.Context, t.Tokens, t.Logprobs, t.Versions = context, tokens, make([]float32, len(tokens)), make([]int, len(tokens))
		return rollout.Turn{Turn: t, Observation: "Error: x"}
	}
	tr := &rollout.Trajectory{ID: "e", Task: &sdk.Task{Key: "k", Prompt: "p"}, Tokenizer: "t", Turns: []rollout.Turn{
		turn([]int{1, 2}, []int{3, 4}, policy.Turn{Malformed: "x"}),
		turn([]int{1, 2, 3, 4, 5}, []int{6}, policy.Turn{Call: &policy.Call{Tool: "bash", Arguments: map[string]string{"command": "ls"}}}),
		turn([]int{9}, []int{8}, policy.Turn{Text: "done"}),
	}}
	got, err := transcript.FromATIF(tr.ATIF())
	if err != nil {
		t.Fatal(err)
	}
	want := []transcript.Sequence{
		{Tokens: []int{1, 2, 3, 4, 5, 6}, Learnt: []bool{false, false, false, false, false, true}},
		{Tokens: []int{9, 8}, Learnt: []bool{false, true}},
	}
	if d := cmp.Diff(want, got.Sequences); d != "" {
		t.Error(d)
	}
	tr.Turns[1].Tokens = nil // one turn without a record
	if got, err := transcript.FromATIF(tr.ATIF()); err != nil || got.Sequences != nil {
		t.Errorf("%+v, %v", got.Sequences, err)
	}
}

// What other programs write is read too, or refused with the place and the field.
func TestMessagesOfOthers(t *testing.T) {
	user := `{"role":"user","content":"mend it"}`
	line := func(messages ...string) string {
		return `{"messages":[` + strings.Join(append([]string{user}, messages...), ",") + `]}`
	}
	ls := `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":{"command":"ls"}}}]}`
	for _, tt := range []struct{ name, line, want string }{
		{"parts, an object for arguments, no content", line(ls, `{"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `{"role":"assistant","content":"done"}`), ""},
		{"a developer", `{"messages":[{"role":"developer","content":"brief"},` + user + `,{"role":"assistant","content":"done"}],"weight":1}`, ""},
		{"a number as ID", `{"id":7,"messages":[` + user + `,{"role":"assistant","content":"done"}]}`, ""},
		{"nothing", ``, "no trajectory: want messages"},
		{"half a line", `{"messages":[`, "messages: byte 13: the text ends within a value"},
		{"no list", `{"messages":{}}`, "messages: no list of messages"},
		{"an empty list", `{"messages":[]}`, "messages: no list of messages"},
		{"no object", `{"messages":[1]}`, "messages[0]: a number where an object was due"},
		{"no role", line(`{"content":"x"}`), "messages[1].role: missing; want system, user, assistant or tool"},
		{"another role", line(`{"role":"function","content":"x"}`), `messages[1].role: "function", want`},
		{"a role that is a number", line(`{"role":1,"content":"x"}`), "messages[1].role: a number where text was due"},
		{"content that is a number", line(`{"role":"assistant","content":1}`), "messages[1].content: neither text nor a list of parts"},
		{"an image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, `messages[0].content: part 0 is of type "image_url"; only text can be read`},
		{"a late system message", line(`{"role":"system","content":"x"}`), "messages[1]: a system message that is not the first message"},
		{"a second question", line(`{"role":"assistant","content":"x"}`, `{"role":"user","content":"thanks"}`), "messages[2]: a second message of the user"},
		{"an answer nobody asked for", line(`{"role":"tool","content":"x"}`), "messages[1]: an answer of a tool that no call asks for"},
		{"an answer to another call", line(ls, `{"role":"tool","tool_call_id":"d","content":"x"}`), `messages[2].tool_call_id: "d"; the call before is "c"`},
		{"the agent first", `{"messages":[{"role":"assistant","content":"x"}]}`, "messages[0]: the agent speaks before the user"},
		{"twice final", line(`{"role":"assistant","content":"x"}`, `{"role":"assistant","content":"y"}`), "messages[2]: a turn after the final message"},
		{"two calls", line(strings.Replace(ls, `"tool_calls":[`, `"tool_calls":[{},`, 1)), "messages[1].tool_calls: 2 calls; a turn has one"},
		{"another tool", line(strings.Replace(ls, "bash", "python", 1)), `messages[1].tool_calls[0].function.name: no tool "python"; there are bash and str_replace`},
		{"no function", line(`{"role":"assistant","tool_calls":[{"id":"c"}]}`), "messages[1].tool_calls[0].function: missing"},
		{"arguments that are no object", line(strings.Replace(ls, `{"command":"ls"}`, `"[1]"`, 1)), "messages[1].tool_calls[0].function.arguments: no JSON object"},
		{"an argument that is a list", line(strings.Replace(ls, `"ls"`, `["ls"]`, 1)), "messages[1].tool_calls[0].function.arguments.command: neither text nor a number"},
		{"calls that are text", line(`{"role":"assistant","tool_calls":"bash"}`), "messages[1].tool_calls: text where a list was due"},
		{"a user that calls", strings.Replace(line(), `"content"`, `"tool_calls":[{}],"content"`, 1), `messages[0].tool_calls: only an assistant calls tools`},
		{"the older form", line(`{"role":"assistant","function_call":{"name":"bash"}}`), "messages[1].function_call: the older form of a call; want tool_calls"},
		{"a score in words", `{"score":"high","messages":[` + user + `]}`, "score: a text where a number was due"},
		{"marks missing", `{"messages":[` + user + `,{"role":"assistant"}],"sequences":[{"token_ids":[1,2],"loss_mask":[1]}]}`, "sequences[0]: 2 tokens and 1 marks"},
	} {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte("{\"messages\":["+user+",{\"role\":\"assistant\",\"content\":\"ok\"}]}\n"+tt.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if tt.line == "" {
			if err := os.WriteFile(path, []byte("{\"a\":1}\n{\"b\":1}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var last transcript.Found
		n := 0
		for f := range transcript.Read(path) {
			last = f
			n++
		}
		switch {
		case n != 2 || last.Place.String() != path+", line 2":
			t.Errorf("%s: %d trajectories, the last of %s", tt.name, n, last.Place)
		case tt.want == "":
			if last.Err != nil || len(last.Turns) == 0 {
				t.Errorf("%s: %v", tt.name, last.Err)
			}
		case last.Err == nil || diag.KindOf(last.Err) != diag.KindData || !strings.Contains(last.Err.Error(), path+", line 2: "+tt.want):
			t.Errorf("%s: %v", tt.name, last.Err)
		}
	}
}

func TestBareMessages(t *testing.T) {
	tr := &rollout.Trajectory{ID: "e", Task: &sdk.Task{Key: "k", Prompt: "p"}, Tokenizer: "t", Turns: []rollout.Turn{
		{Turn: policy.Turn{Reasoning: "hm", Call: &policy.Call{Tool: "str_replace", Arguments: map[string]string{"command": "insert", "path": "a", "insert_line": "3", "new_str": "<b>"}}}, Observation: "ok"},
		{Turn: policy.Turn{Text: "done"}},
	}}
	path := filepath.Join(t.TempDir(), "x.jsonl")
	w, err := transcript.Create("messages", path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&journal.Episode{ID: "e", Outcome: journal.Scored, Score: 1, Trajectory: tr.ATIF()}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file that is not finished has its name")
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"messages":[{"role":"user","content":"p"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call-a","type":"function","function":{"name":"str_replace","arguments":"{\"command\": \"insert\", \"path\": \"a\", \"insert_line\": 3, \"new_str\": \"<b>\"}"}}]},` +
		`{"role":"tool","content":"ok","tool_call_id":"call-a"},{"role":"assistant","content":"done"}],"tools":[`
	if !strings.HasPrefix(string(got), want) || strings.Contains(string(got), "score") || strings.Count(string(got), "\n") != 1 {
		t.Errorf("%s", got)
	}
}

func TestFilter(t *testing.T) {
	dir := journal.Dir(t.TempDir())
	say := func(text string) *rollout.Trajectory {
		return &rollout.Trajectory{ID: text, Task: &sdk.Task{Key: "k", Prompt: "p"}, End: rollout.Submitted, Turns: []rollout.Turn{{Turn: policy.Turn{Text: text}}}}
	}
	e := func(id, skill string, score float64, end, judge, text string) journal.Episode {
		out := journal.Episode{ID: id, Task: "k", Skill: skill, Outcome: journal.Scored, Score: score, End: end, Trajectory: say(text).ATIF()}
		if judge != "" {
			out.Plugins = map[string]string{"judge": "sha256:" + judge}
		}
		return out
	}
	if err := dir.WriteStep(journal.Step{Step: 1}, []journal.Episode{
		e("a", "repro", 1, "submitted", "abc", "one"), e("b", "editing", 1, "submitted", "", "two"), e("c", "editing", 0.5, "submitted", "", "three"),
		e("d", "editing", 1, "max_steps", "", "four"), e("e", "editing", 1, "submitted", "", "two"), {ID: "f", Skill: "editing", Outcome: "sandbox", Error: "died"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteEval(journal.Eval{Split: "eval"}, []journal.Episode{e("g", "repro", 1, "submitted", "", "five")}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		filter transcript.Filter
		evals  bool
		want   string
	}{
		{"all that is right", transcript.Filter{MinScore: 1}, false, "a b"},
		{"a skill", transcript.Filter{MinScore: 1, Skills: []string{"editing"}}, false, "b"},
		{"a lower score", transcript.Filter{MinScore: 0.5}, false, "a b c"},
		{"any end", transcript.Filter{MinScore: 1, Ended: true}, false, "a b d"},
		{"duplicates", transcript.Filter{MinScore: 1, Twice: true}, false, "a b e"},
		{"a judge", transcript.Filter{MinScore: 1, Judge: "sha256:ab"}, false, "a"},
		{"another judge", transcript.Filter{MinScore: 1, Judge: "abd"}, false, ""},
		{"no judge", transcript.Filter{MinScore: 1, Judge: "none"}, false, "b"},
		{"evaluations", transcript.Filter{MinScore: 1}, true, "g"},
	} {
		files, err := transcript.Stored(string(dir), tt.evals)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, f := range files {
			for e, why := range tt.filter.Episodes(f) {
				if why == nil {
					ids = append(ids, e.ID)
				}
			}
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if err := os.RemoveAll(dir.Path("steps")); err != nil {
		t.Fatal(err)
	}
	if _, err := transcript.Stored(string(dir), false); err == nil || !strings.Contains(err.Error(), "--evals reads them all the same") {
		t.Error(err)
	}
}

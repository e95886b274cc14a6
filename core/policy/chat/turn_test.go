package chat_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/chat"
)

func TestParseText(t *testing.T) {
	bash := func(command string) policy.Turn {
		return policy.Turn{Call: &policy.Call{Tool: "bash", Arguments: map[string]string{"command": command}}}
	}
	edit := func(args map[string]string) policy.Turn {
		return policy.Turn{Call: &policy.Call{Tool: "str_replace", Arguments: args}}
	}
	bad := func(text, why string) policy.Turn { return policy.Turn{Text: text, Malformed: why} }
	for text, want := range map[string]policy.Turn{
		"":                               {},
		"<|end|>":                        {},
		"Done.":                          {Text: "Done."},
		"Done.<|end|>":                   {Text: "Done."},
		"a < b <| c |> d":                {Text: "a < b <| c |> d"},
		"<|bash|>ls -l":                  bash("ls -l"),
		"<|bash|><|end|>":                bash(""),
		"<|str_replace|>view<|arg|>a.py": edit(map[string]string{"command": "view", "path": "a.py"}),
		"<|str_replace|>replace<|arg|>a<|arg|>\nx<|arg|>": edit(map[string]string{"command": "replace", "path": "a", "old_str": "\nx", "new_str": ""}),
		"<|str_replace|>undo<|arg|>a":                     bad("<|str_replace|>undo<|arg|>a", `unknown command "undo" of str_replace; want view, create, replace or insert`),
		"<|str_replace|>view":                             bad("<|str_replace|>view", "view has 0 arguments after it; want 1: path"),
		"<|bash|>ls<|arg|>x":                              bad("<|bash|>ls<|arg|>x", "<|arg|> in the command of bash"),
		"x<|bash|>ls":                                     bad("x<|bash|>ls", "<|bash|> in the message"),
		"<|user|>":                                        bad("<|user|>", "<|user|> in the message"),
		"a<|end|>b":                                       bad("a<|end|>b", "1 bytes after <|end|>"),
		"<|bash|><|<|arg|>":                               bad("<|bash|><|<|arg|>", "<|arg|> in the command of bash"),
	} {
		if d := cmp.Diff(want, chat.ParseText(text)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

// What is written as text is read as its tokens are.
func TestTextIsReadAsTokens(t *testing.T) {
	tok := tokenizer(t)
	b, err := chat.New(tok)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.Special(chat.End)
	rapid.Check(t, func(r *rapid.T) {
		// Text that spells no marker: without <.
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab \n|>{}'view")))
		var ids []int
		for range rapid.IntRange(0, 6).Draw(r, "parts") {
			if rapid.Bool().Draw(r, "marker") {
				name := rapid.SampledFrom([]string{chat.Bash, chat.StrReplace, chat.Arg, chat.User, chat.Pad}).Draw(r, "name")
				id, _ := tok.Special(name)
				ids = append(ids, id)
			} else {
				ids = append(ids, tok.Encode(text.Draw(r, "text"))...)
			}
		}
		want, got := b.Parse(append(ids, end)), chat.ParseText(tok.Decode(ids))
		want.Text, got.Text = "", "" // of a malformed turn it has the end
		if want.Malformed == "" {
			want, got = b.Parse(append(ids, end)), chat.ParseText(tok.Decode(ids))
		}
		if d := cmp.Diff(want, got); d != "" {
			r.Fatalf("%q: %s", tok.Decode(ids), d)
		}
	})
}

func FuzzParseText(f *testing.F) {
	f.Add("<|str_replace|>insert<|arg|>a<|arg|>3<|arg|>x<|end|>")
	f.Add("<|<|bash|>")
	f.Fuzz(func(t *testing.T, text string) {
		turn := chat.ParseText(text)
		if turn.Malformed != "" && (turn.Call != nil || turn.Text != text) || turn.Full {
			t.Fatalf("%+v", turn)
		}
	})
}

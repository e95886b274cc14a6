package chat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
)

var corpus = []string{
	"def total(values):\n    \"\"\"Add all values.\"\"\"\n    out = 0\n    for value in values:\n        out += value\n    return out\n",
	"import unittest\n\nclass Total(unittest.TestCase):\n    def test_empty(self):\n        self.assertEqual(total([]), 0)\n",
	"The function total gives the wrong answer for an empty list. Fix it in shop/total.py, please.",
}

func tokenizer(t testing.TB) *bpe.Tokenizer {
	t.Helper()
	tok, err := chat.Train(slices.Values(corpus), 400, 512)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func brief(t testing.TB) (*bpe.Tokenizer, *chat.Brief) {
	t.Helper()
	tok := tokenizer(t)
	b, err := chat.New(tok)
	if err != nil {
		t.Fatal(err)
	}
	return tok, b
}

func TestSpecialsHaveTheFirstIDs(t *testing.T) {
	tok, b := brief(t)
	for want, name := range chat.Specials() {
		if id, ok := tok.Special(name); !ok || id != want {
			t.Errorf("Special(%q) = %d, %v; want %d", name, id, ok, want)
		}
	}
	if diff := cmp.Diff([]int{5}, b.Stop()); diff != "" {
		t.Error(diff)
	}
}

func bash(command string) policy.Turn {
	return policy.Turn{Call: &policy.Call{Tool: policy.ToolBash, Arguments: map[string]string{"command": command}}}
}

func strReplace(pairs ...string) policy.Turn {
	args := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i]] = pairs[i+1]
	}
	return policy.Turn{Call: &policy.Call{Tool: policy.ToolStrReplace, Arguments: args}}
}

func TestRendering(t *testing.T) {
	tok, b := brief(t)
	for _, c := range []struct {
		name string
		ids  []int
		want string
	}{
		{"start", b.Start("", "Fix it."), "<|user|>Fix it.<|end|><|assistant|>"},
		{"start with system", b.Start("Be brief.", "Fix it."), "<|system|>Be brief.<|end|><|user|>Fix it.<|end|><|assistant|>"},
		{"observe", b.Observe("ok\n"), "<|tool|>ok\n<|end|><|assistant|>"},
		{"text", b.Reply(policy.Turn{Text: "Done."}), "Done.<|end|>"},
		{"empty", b.Reply(policy.Turn{}), "<|end|>"},
		{"bash", b.Reply(bash("ls -l")), "<|bash|>ls -l<|end|>"},
		{"view", b.Reply(strReplace("command", "view", "path", "a.py")), "<|str_replace|>view<|arg|>a.py<|end|>"},
		{"create", b.Reply(strReplace("command", "create", "path", "a.py", "file_text", "x\n")), "<|str_replace|>create<|arg|>a.py<|arg|>x\n<|end|>"},
		{"replace", b.Reply(strReplace("command", "replace", "path", "a.py", "old_str", "x", "new_str", "")), "<|str_replace|>replace<|arg|>a.py<|arg|>x<|arg|><|end|>"},
		{"insert", b.Reply(strReplace("command", "insert", "path", "a.py", "insert_line", "3", "new_str", "y")), "<|str_replace|>insert<|arg|>a.py<|arg|>3<|arg|>y<|end|>"},
	} {
		if got := tok.Decode(c.ids); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// parts makes ids of text in which special tokens are written by their names.
func parts(t testing.TB, tok *bpe.Tokenizer, text string) []int {
	t.Helper()
	var ids []int
	for text != "" {
		at, marker := len(text), ""
		for _, name := range chat.Specials() {
			if i := strings.Index(text, name); i >= 0 && i < at {
				at, marker = i, name
			}
		}
		ids = append(ids, tok.Encode(text[:at])...)
		if marker != "" {
			id, _ := tok.Special(marker)
			ids = append(ids, id)
		}
		text = text[at+len(marker):]
	}
	return ids
}

func TestMalformed(t *testing.T) {
	tok, b := brief(t)
	for _, c := range []struct{ turn, want string }{
		{"", "no <|end|> at the end"},
		{"Done.", "no <|end|> at the end"},
		{"<|bash|>ls", "no <|end|> at the end"},
		{"Done.<|end|>=", "1 tokens after <|end|>"},
		{"Done.<|end|><|end|>", "1 tokens after <|end|>"},
		{"I look: <|bash|>ls<|end|>", "<|bash|> in the message"},
		{"<|pad|><|end|>", "<|pad|> in the message"},
		{"<|arg|>x<|end|>", "<|arg|> in the message"},
		{"<|bash|>ls<|arg|>x<|end|>", "<|arg|> in the command of bash"},
		{"<|bash|><|bash|><|end|>", "<|bash|> in the command of bash"},
		{"<|str_replace|>vi<|user|>ew<|arg|>a<|end|>", "<|user|> in the command of str_replace"},
		{"<|str_replace|>view<|arg|>a<|tool|>b<|end|>", "<|tool|> in the path of view"},
		{"<|str_replace|>create<|arg|>a<|arg|><|pad|><|end|>", "<|pad|> in the file_text of create"},
		{"<|str_replace|><|end|>", `unknown command "" of str_replace; want view, create, replace or insert`},
		{"<|str_replace|>undo<|arg|>a<|end|>", `unknown command "undo" of str_replace; want view, create, replace or insert`},
		{"<|str_replace|>view<|end|>", "view has 0 arguments after it; want 1: path"},
		{"<|str_replace|>view<|arg|>a<|arg|>b<|end|>", "view has 2 arguments after it; want 1: path"},
		{"<|str_replace|>replace<|arg|>a<|arg|>b<|end|>", "replace has 2 arguments after it; want 3: path, old_str, new_str"},
		{"<|str_replace|>insert<|arg|>a<|arg|>b<|arg|>c<|arg|><|end|>", "insert has 4 arguments after it; want 3: path, insert_line, new_str"},
	} {
		got := b.Parse(parts(t, tok, c.turn))
		if diff := cmp.Diff(policy.Turn{Text: c.turn, Malformed: c.want}, got); diff != "" {
			t.Errorf("%q: %s", c.turn, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	_, b := brief(t)
	beside := bash("ls")
	beside.Text = "I look."
	for _, c := range []struct {
		name string
		turn policy.Turn
		want string // "" when it can be written
	}{
		{"text", policy.Turn{Text: "x"}, ""},
		{"bash", bash(""), ""},
		{"malformed", policy.Turn{Malformed: "why"}, "check turn: malformed: why"},
		{"full", policy.Turn{Full: true}, "check turn: the context was full"},
		{"beside", beside, "check turn: text beside a call of bash"},
		{"tool", policy.Turn{Call: &policy.Call{Tool: "python"}}, `check turn: unknown tool "python"`},
		{"command", strReplace("command", "undo"), `check turn: unknown command "undo" of str_replace; want view, create, replace or insert`},
		{"missing", strReplace("command", "view"), "check turn: str_replace: argument path is missing"},
		{"surplus", strReplace("command", "view", "path", "a", "new_str", ""), "check turn: str_replace: 3 arguments; want command, path"},
	} {
		err := b.Check(c.turn)
		switch {
		case err == nil && c.want != "", err != nil && err.Error() != c.want:
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		case err != nil && diag.KindOf(err) != diag.KindData:
			t.Errorf("%s: kind %s", c.name, diag.KindOf(err))
		}
	}
}

func TestNewNeedsEverySpecial(t *testing.T) {
	tok, err := bpe.Train(slices.Values(corpus), 300, chat.Specials()[:8])
	if err != nil {
		t.Fatal(err)
	}
	_, err = chat.New(tok)
	if err == nil || diag.KindOf(err) != diag.KindPolicy || !strings.Contains(err.Error(), chat.Arg) {
		t.Errorf("got %v", err)
	}
}

// anyText draws text of words, markers' names and arbitrary bytes.
func anyText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		piece := rapid.OneOf(
			rapid.SampledFrom(append(chat.Specials(), "total", "\n    ", ", ", "é", "=")),
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		)
		return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
	})
}

func anyTurn() *rapid.Generator[policy.Turn] {
	return rapid.Custom(func(t *rapid.T) policy.Turn {
		text := anyText()
		switch command := rapid.SampledFrom([]string{"text", "bash", "view", "create", "replace", "insert"}).Draw(t, "command"); command {
		case "text":
			return policy.Turn{Text: text.Draw(t, "text")}
		case "bash":
			return bash(text.Draw(t, "command"))
		default:
			pairs := []string{"command", command, "path", text.Draw(t, "path")}
			for _, name := range policy.StrReplaceArguments[command] {
				pairs = append(pairs, name, text.Draw(t, name))
			}
			return strReplace(pairs...)
		}
	})
}

func TestReplyAndParseAreInverse(t *testing.T) {
	_, b := brief(t)
	rapid.Check(t, func(t *rapid.T) {
		turn := anyTurn().Draw(t, "turn")
		if err := b.Check(turn); err != nil {
			t.Fatal(err)
		}
		ids := b.Reply(turn)
		if diff := cmp.Diff(turn, b.Parse(ids)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(ids, b.Reply(b.Parse(ids))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What Parse reads from any tokens at all can be written again and reads the same.
func TestParseOfAnyTokens(t *testing.T) {
	tok, b := brief(t)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(-1, tok.Size()))
		turn := b.Parse(rapid.SliceOf(id).Draw(t, "ids"))
		if turn.Malformed != "" {
			if turn.Call != nil {
				t.Fatal("malformed and a call")
			}
			return
		}
		if err := b.Check(turn); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(turn, b.Parse(b.Reply(turn))); diff != "" {
			t.Fatal(diff)
		}
	})
}

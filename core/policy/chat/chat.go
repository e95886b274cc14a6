// Package chat is the brief chat: a conversation with tools in as few tokens as can
// be, made for policies of a few hundred tokens of context.
//
//	<|system|>SYSTEM<|end|><|user|>PROMPT<|end|><|assistant|>   the start; no system part when SYSTEM is empty
//	TEXT<|end|>                                                  the final message
//	<|bash|>COMMAND<|end|>                                       a call of bash
//	<|str_replace|>view<|arg|>PATH<|end|>                        a call of str_replace
//	<|str_replace|>create<|arg|>PATH<|arg|>FILE_TEXT<|end|>
//	<|str_replace|>replace<|arg|>PATH<|arg|>OLD_STR<|arg|>NEW_STR<|end|>
//	<|str_replace|>insert<|arg|>PATH<|arg|>INSERT_LINE<|arg|>NEW_STR<|end|>
//	<|tool|>TEXT<|end|><|assistant|>                             a tool's answer
//
// The markers are single tokens that no text can spell, so nothing is escaped and
// every text, marker names included, comes back as it was.
package chat

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
)

// The special tokens.
const (
	Pad        = "<|pad|>"
	System     = "<|system|>"
	User       = "<|user|>"
	Assistant  = "<|assistant|>"
	Tool       = "<|tool|>"
	End        = "<|end|>"
	Bash       = "<|bash|>"
	StrReplace = "<|str_replace|>"
	Arg        = "<|arg|>"
)

// Specials lists the special tokens in the order of their ids, which start at 0.
func Specials() []string {
	return []string{Pad, System, User, Assistant, Tool, End, Bash, StrReplace, Arg}
}

// Train learns a tokenizer for the brief chat of at most size tokens: [bpe.Train]
// with Specials, the chat template, and context as the model's length (0: unknown).
func Train(texts iter.Seq[string], size, context int) (*bpe.Tokenizer, error) {
	t, err := bpe.Train(texts, size, Specials())
	if err != nil {
		return nil, err
	}
	return t.WithConfig(bpe.Config{Pad: Pad, End: End, ChatTemplate: Template, ResponseTemplate: ResponseTemplate, MaxLength: context})
}

// Brief is the brief chat over one tokenizer. It implements [policy.Chat].
type Brief struct {
	tokens                             policy.Tokenizer
	system, user, assistant, tool, end int
	bash, strReplace, arg              int
	special                            map[int]string // markers and padding, by id
}

var _ policy.Chat = (*Brief)(nil)

// New gives the brief chat over t, which must have all of [Specials]; the error is of
// diag.KindPolicy.
func New(t policy.Tokenizer) (*Brief, error) {
	b := &Brief{tokens: t, special: map[int]string{}}
	ids := map[string]int{}
	for _, name := range Specials() {
		id, ok := t.Special(name)
		if !ok {
			return nil, diag.Errorf(diag.KindPolicy, "open brief chat", name, "the tokenizer has no such special token")
		}
		ids[name] = id
		b.special[id] = name
	}
	b.system, b.user, b.assistant, b.tool, b.end = ids[System], ids[User], ids[Assistant], ids[Tool], ids[End]
	b.bash, b.strReplace, b.arg = ids[Bash], ids[StrReplace], ids[Arg]
	return b, nil
}

// Start implements [policy.Chat].
func (b *Brief) Start(system, prompt string) []int {
	var out []int
	if system != "" {
		out = b.append(out, b.system, system)
		out = append(out, b.end)
	}
	out = b.append(out, b.user, prompt)
	return append(out, b.end, b.assistant)
}

// Observe implements [policy.Chat].
func (b *Brief) Observe(text string) []int {
	return append(b.append(nil, b.tool, text), b.end, b.assistant)
}

// Reply implements [policy.Chat]. A turn that [Brief.Check] refuses is written as far
// as it goes: an argument that is missing is empty, a call of an unknown tool is left
// out. Text beside a call is left out too.
func (b *Brief) Reply(t policy.Turn) []int {
	if t.Call == nil {
		return append(b.tokens.Encode(t.Text), b.end)
	}
	var out []int
	args := t.Call.Arguments
	switch t.Call.Tool {
	case policy.ToolBash:
		out = b.append(out, b.bash, args["command"])
	case policy.ToolStrReplace:
		out = b.append(out, b.strReplace, args["command"])
		out = b.append(out, b.arg, args["path"])
		for _, name := range policy.StrReplaceArguments[args["command"]] {
			out = b.append(out, b.arg, args[name])
		}
	}
	return append(out, b.end)
}

// append adds a marker and the text after it.
func (b *Brief) append(out []int, marker int, text string) []int {
	return append(append(out, marker), b.tokens.Encode(text)...)
}

// Stop implements [policy.Chat].
func (b *Brief) Stop() []int { return []int{b.end} }

// Check says whether Parse reads Reply(t) as t again. Not so are turns that are
// malformed or cut, tools and commands that are not known, missing and surplus
// arguments, and text beside a call. The error is of diag.KindData.
func (b *Brief) Check(t policy.Turn) error {
	refuse := func(format string, args ...any) error {
		return diag.Errorf(diag.KindData, "check turn", "", format, args...)
	}
	switch {
	case t.Malformed != "":
		return refuse("malformed: %s", t.Malformed)
	case t.Full:
		return refuse("the context was full")
	case t.Call == nil:
		return nil
	case t.Text != "":
		return refuse("text beside a call of %s", t.Call.Tool)
	}
	args := t.Call.Arguments
	names := []string{"command"}
	switch t.Call.Tool {
	case policy.ToolBash:
	case policy.ToolStrReplace:
		more, ok := policy.StrReplaceArguments[args["command"]]
		if !ok {
			return refuse("%s", unknownCommand(args["command"]))
		}
		names = append(append(names, "path"), more...)
	default:
		return refuse("unknown tool %q", t.Call.Tool)
	}
	for _, name := range names {
		if _, ok := args[name]; !ok {
			return refuse("%s: argument %s is missing", t.Call.Tool, name)
		}
	}
	if len(args) != len(names) {
		return refuse("%s: %d arguments; want %s", t.Call.Tool, len(args), strings.Join(names, ", "))
	}
	return nil
}

// Parse implements [policy.Chat]. A malformed turn has its tokens, markers by their
// names, in Text. Call.ID is left empty.
func (b *Brief) Parse(ids []int) policy.Turn {
	t, err := b.parse(ids)
	if err != nil {
		return policy.Turn{Text: b.tokens.Decode(ids), Malformed: err.Error()}
	}
	return t
}

func (b *Brief) parse(ids []int) (policy.Turn, error) {
	end := slices.Index(ids, b.end)
	switch {
	case end < 0:
		return policy.Turn{}, fmt.Errorf("no %s at the end", End)
	case end < len(ids)-1:
		return policy.Turn{}, fmt.Errorf("%d tokens after %s", len(ids)-1-end, End)
	}
	var parts []part
	for ids = ids[:end]; len(ids) > 0; {
		n := 0
		for n < len(ids) && b.special[ids[n]] == "" {
			n++
		}
		if n > 0 {
			parts, ids = append(parts, part{text: b.tokens.Decode(ids[:n])}), ids[n:]
			continue
		}
		parts, ids = append(parts, part{marker: b.special[ids[0]]}), ids[1:]
	}
	return read(parts)
}

func call(tool string, args map[string]string) policy.Turn {
	return policy.Turn{Call: &policy.Call{Tool: tool, Arguments: args}}
}

func unknownCommand(command string) string {
	const most = 40
	if len(command) > most {
		command = command[:most] + "…"
	}
	return fmt.Sprintf("unknown command %q of str_replace; want view, create, replace or insert", command)
}

package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/core/policy"
)

// message is one of OpenAI's chat.
type message struct {
	Role      string     `json:"role" parquet:"role"`
	Content   *string    `json:"content" parquet:"content,optional"` // nil beside a call
	Reasoning *string    `json:"reasoning_content,omitempty" parquet:"reasoning_content,optional"`
	Calls     []toolCall `json:"tool_calls,omitempty" parquet:"tool_calls,optional,list"`
	Answers   *string    `json:"tool_call_id,omitempty" parquet:"tool_call_id,optional"`
}

type toolCall struct {
	ID       string   `json:"id" parquet:"id"`
	Type     string   `json:"type" parquet:"type"`
	Function function `json:"function" parquet:"function"`
}

type function struct {
	Name      string `json:"name" parquet:"name"`
	Arguments string `json:"arguments" parquet:"arguments"` // an object's JSON
}

// complaint begins what a turn that cannot be read is answered with.
const complaint = "Error: "

// messages renders a transcript.
func (t *Transcript) messages() []message {
	var out []message
	say := func(role, text string) { out = append(out, message{Role: role, Content: &text}) }
	if t.System != "" {
		say("system", t.System)
	}
	say("user", t.Prompt)
	for i := range t.Turns {
		turn := &t.Turns[i]
		m := message{Role: "assistant", Content: &turn.Text}
		if turn.Reasoning != "" {
			m.Reasoning = &turn.Reasoning
		}
		if turn.Call == nil {
			out = append(out, m)
			if turn.Malformed != "" {
				say("user", turn.Observation)
			}
			continue
		}
		id := turn.Call.ID
		if id == "" {
			id = policy.CallID(i + 1)
		}
		if turn.Text == "" {
			m.Content = nil
		}
		m.Calls = []toolCall{{ID: id, Type: "function", Function: function{turn.Call.Tool, arguments(turn.Call)}}}
		out = append(out, m, message{Role: "tool", Content: &turn.Observation, Answers: &id})
	}
	return out
}

// arguments is the JSON of a call's arguments, in the order in which the tools declare
// them; a line's number is a number.
func arguments(c *policy.Call) string {
	names := []string{"command"}
	if c.Tool == policy.ToolStrReplace {
		names = append(append(names, "path"), policy.StrReplaceArguments[c.Arguments["command"]]...)
	}
	var rest []string
	for name := range c.Arguments {
		if !slices.Contains(names, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	b := []byte{'{'}
	for _, name := range append(names, rest...) {
		text, ok := c.Arguments[name]
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ", "...)
		}
		b = append(append(b, quoted(name)...), ": "...)
		if n, err := strconv.Atoi(text); err == nil && name == "insert_line" && strconv.Itoa(n) == text {
			b = append(b, text...)
		} else {
			b = append(b, quoted(text)...)
		}
	}
	return string(append(b, '}'))
}

// quoted is a text's JSON without the escapes meant for HTML.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// said is a message as others write it.
type said struct {
	Role       *string         `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  *string         `json:"reasoning_content"`
	Calls      []calledFor     `json:"tool_calls"`
	Answers    *string         `json:"tool_call_id"`
	Deprecated json.RawMessage `json:"function_call"`
}

type calledFor struct {
	ID       string `json:"id"`
	Function *struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// readMessages reads the JSON of a list of messages into t.
func (t *Transcript) readMessages(data []byte) error {
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		return wrong("messages", "no list of messages")
	}
	var b builder
	for i, raw := range all {
		at := fmt.Sprintf("messages[%d]", i)
		var m said
		if err := json.Unmarshal(raw, &m); err != nil {
			return misread(at, err)
		}
		if err := b.message(at, &m); err != nil {
			return err
		}
	}
	b.finish(t)
	return nil
}

// misread makes a FieldError of what encoding/json says of the value at a place.
func misread(at string, err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field != "" {
			at += "." + kind.Field
		}
		return wrong(at, "%s where %s was due", article(kind.Value), due(kind.Type.String()))
	}
	return wrong(at, "%s", strings.TrimPrefix(err.Error(), "json: "))
}

func article(kind string) string {
	kind, _, _ = strings.Cut(kind, " ")
	switch kind {
	case "string":
		return "text"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

func due(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasSuffix(goType, "string"):
		return "text"
	case strings.Contains(goType, "int"), strings.Contains(goType, "float"):
		return "a number"
	case strings.HasSuffix(goType, "bool"):
		return "true or false"
	}
	return "an object"
}

func (b *builder) message(at string, m *said) error {
	if m.Role == nil {
		return wrong(at+".role", "missing; want system, user, assistant or tool")
	}
	text, err := content(m.Content)
	if err != nil {
		return wrong(at+".content", "%v", err)
	}
	if *m.Role != "assistant" && len(m.Calls) > 0 {
		return wrong(at+".tool_calls", "only an assistant calls tools, and this is a message of %q", *m.Role)
	}
	switch last := b.last(); *m.Role {
	case "system", "developer":
		return b.system(at, text)
	case "user":
		if last == nil || last.Call != nil {
			return b.user(at, text)
		}
		why, ok := strings.CutPrefix(text, complaint)
		if !ok || last.Malformed != "" {
			return b.user(at, text)
		}
		last.Malformed, last.Observation = why, text
		return nil
	case "tool":
		switch {
		case last == nil || last.Call == nil:
			return wrong(at, "an answer of a tool that no call asks for")
		case m.Answers != nil && *m.Answers != "" && last.Call.ID != "" && *m.Answers != last.Call.ID:
			return wrong(at+".tool_call_id", "%q; the call before is %q", *m.Answers, last.Call.ID)
		}
		last.Observation = text
		return nil
	case "assistant":
		return b.assistant(at, m, text)
	}
	return wrong(at+".role", "%q, want system, user, assistant or tool", *m.Role)
}

func (b *builder) assistant(at string, m *said, text string) error {
	turn := policy.Turn{Text: text}
	if m.Reasoning != nil {
		turn.Reasoning = *m.Reasoning
	}
	if n := len(m.Calls); n > 1 {
		return wrong(at+".tool_calls", "%d calls; a turn has one", n)
	} else if n == 1 {
		c := &m.Calls[0]
		at := at + ".tool_calls[0].function"
		if c.Function == nil {
			return wrong(at, "missing")
		}
		arguments, err := object(c.Function.Arguments)
		if err != nil {
			return wrong(at+".arguments", "%v", err)
		}
		if turn.Call, err = readCall(at+".name", at+".arguments", c.ID, c.Function.Name, arguments); err != nil {
			return err
		}
	} else if len(m.Deprecated) > 0 && string(m.Deprecated) != "null" {
		return wrong(at+".function_call", "the older form of a call; want tool_calls")
	}
	return b.turn(at, turn)
}

// content is a message's text: as such, or in parts.
func content(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if raw[0] == '"' {
		return text, json.Unmarshal(raw, &text)
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("neither text nor a list of parts")
	}
	for i, p := range parts {
		if p.Text == nil || p.Type != "" && p.Type != "text" {
			return "", fmt.Errorf("part %d is of type %q; only text can be read", i, p.Type)
		}
		text += *p.Text
	}
	return text, nil
}

// object is a call's arguments: the JSON of an object, or that as text.
func object(raw json.RawMessage) (map[string]any, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		raw = []byte(text)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if dec.Decode(&m) != nil || m == nil || dec.More() {
		return nil, errors.New("no JSON object")
	}
	return m, nil
}

package chatserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Answer is a chat completion.
type Answer struct {
	Choices        []Choice // at least one
	PromptTokenIDs []int    // as the server gives them; nil if it does not
	Usage          Usage    // zero if the server does not say
	Cost           float64  // in the currency of Prices
	Endpoint       string   // that answered
	Attempts       int
	Took           time.Duration // from the first attempt, waiting included
}

// Choice is one of the answers asked for.
type Choice struct {
	Content   string
	Reasoning string // reasoning_content, or reasoning
	Refusal   string
	Calls     []Call
	Finish    string // stop, length, tool_calls, content_filter, …; "" if the server does not say

	// What was sampled, as the server gives it, never made from text; nil if it does
	// not. If both are there they have one entry a token.
	TokenIDs []int
	Logprobs []float32
}

// Call is a tool call as the model wrote it.
type Call struct {
	ID        string
	Name      string
	Arguments string // JSON, if the model wrote JSON
}

// Usage counts tokens.
type Usage struct {
	Prompt     int // read
	Cached     int // of those, known to the server from before
	Completion int // written
}

func garbled(format string, args ...any) *Error {
	return &Error{Fault: Garbled, Err: fmt.Errorf(format, args...)}
}

// readWhole reads an answer that came in one piece.
func readWhole(b []byte) (*Answer, *Error) {
	if !utf8.Valid(b) {
		return nil, garbled("%w", errNotUTF8)
	}
	var s stream
	if _, _, no := s.add(bytes.TrimSpace(b)); no != nil {
		return nil, no
	}
	for _, c := range s.choices {
		c.ended = true // whole, whatever the server says of the end
	}
	return s.answer()
}

// wire is a chat completion, or a piece of one.
type wire struct {
	Error          json.RawMessage `json:"error"`
	Choices        []wireChoice    `json:"choices"`
	Usage          *wireUsage      `json:"usage"`
	PromptTokenIDs []int           `json:"prompt_token_ids"` // vLLM
}

type wireUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type wireChoice struct {
	Index          *int         `json:"index"` // absent: its place in the list
	Message        *wireMessage `json:"message"`
	Delta          *wireMessage `json:"delta"`
	Finish         *string      `json:"finish_reason"`
	TokenIDs       []int        `json:"token_ids"` // vLLM
	PromptTokenIDs []int        `json:"prompt_token_ids"`
	Logprobs       *struct {
		Content []struct {
			Logprob float32 `json:"logprob"`
		} `json:"content"`
	} `json:"logprobs"`
	Meta *struct {
		Output [][]json.RawMessage `json:"output_token_logprobs"` // SGLang: logprob, id, text
	} `json:"meta_info"`
}

type wireMessage struct {
	Content   wireText   `json:"content"`
	Thought   wireText   `json:"reasoning_content"`
	Reasoning wireText   `json:"reasoning"`
	Refusal   wireText   `json:"refusal"`
	Calls     []wireCall `json:"tool_calls"`
}

type wireCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string        `json:"name"`
		Arguments wireArguments `json:"arguments"`
	} `json:"function"`
}

// wireText is text, null, or a list of parts of which those of type text count.
type wireText string

func (t *wireText) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = wireText(s)
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return fmt.Errorf("text is %.40s", b)
	}
	for _, p := range parts {
		if p.Type == "text" || p.Type == "" {
			*t += wireText(p.Text)
		}
	}
	return nil
}

// wireArguments is JSON in a string; an object in its place is taken as it stands.
type wireArguments string

func (a *wireArguments) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*a = wireArguments(s)
		return nil
	}
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("arguments are %.40s", b)
	}
	*a = wireArguments(b)
	return nil
}

// stream puts an answer together from its pieces.
type stream struct {
	choices map[int]*growing
	usage   Usage
	counted bool // the server says usage
	prompt  []int
}

// growing is a choice under way.
type growing struct {
	content, reasoning, refusal strings.Builder
	calls                       []*growingCall
	finish                      string
	ended                       bool
	ids                         []int
	logprobs                    []float32
}

type growingCall struct {
	index     int
	id, name  string
	arguments strings.Builder
}

const (
	maxChoices = 1024
	maxCalls   = 128
)

// add takes a piece and gives the text in it. done is true after the last one.
func (s *stream) add(data []byte) (text string, done bool, no *Error) {
	if string(data) == "[DONE]" {
		return "", true, nil
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return "", false, garbled("the answer is not a chat completion: %w: %s", err, clip(data))
	}
	if len(w.Error) > 0 && string(w.Error) != "null" && string(w.Error) != `""` && string(w.Error) != "{}" {
		if room, ok := overflow(data); ok {
			return "", false, &Error{Fault: TooLong, Room: room, Err: errors.New(clip(data))}
		}
		return "", false, &Error{Fault: Broken, Err: fmt.Errorf("the answer is an error: %s", clip(data))}
	}
	if w.Usage != nil {
		s.counted, s.usage = true, Usage{Prompt: w.Usage.Prompt, Completion: w.Usage.Completion}
		if d := w.Usage.Details; d != nil {
			s.usage.Cached = d.Cached
		}
		if u := s.usage; u.Prompt < 0 || u.Completion < 0 || u.Cached < 0 || u.Cached > u.Prompt {
			return "", false, garbled("the answer counts tokens as %+v", u)
		}
	}
	if len(w.PromptTokenIDs) > 0 {
		s.prompt = w.PromptTokenIDs
	}
	if s.choices == nil {
		s.choices = map[int]*growing{}
	}
	for i := range w.Choices {
		c := &w.Choices[i]
		index := i
		if c.Index != nil {
			index = *c.Index
		}
		g := s.choices[index]
		switch {
		case g != nil && c.Message != nil:
			return "", false, garbled("the answer has two choices %d", index)
		case g == nil:
			if index < 0 || len(s.choices) == maxChoices {
				return "", false, garbled("the answer has a choice %d", index)
			}
			g = &growing{}
			s.choices[index] = g
		}
		if len(c.PromptTokenIDs) > 0 {
			s.prompt = c.PromptTokenIDs
		}
		got, no := g.add(c)
		if no != nil {
			return "", false, no
		}
		if index == 0 {
			text += got
		}
	}
	return text, false, nil
}

func (g *growing) add(c *wireChoice) (text string, no *Error) {
	m := c.Delta
	if m == nil {
		m = c.Message
	}
	if m != nil {
		thought := string(m.Thought)
		if thought == "" {
			thought = string(m.Reasoning)
		}
		g.reasoning.WriteString(thought)
		g.content.WriteString(string(m.Content))
		g.refusal.WriteString(string(m.Refusal))
		text = thought
		if m.Content != "" && g.content.Len() == len(m.Content) && g.reasoning.Len() > 0 {
			text += "\n" // between reasoning and the rest
		}
		text += string(m.Content)
		for i := range m.Calls {
			if no := g.addCall(&m.Calls[i]); no != nil {
				return "", no
			}
		}
	}
	if c.Finish != nil && *c.Finish != "" {
		g.finish, g.ended = *c.Finish, true
	}
	g.ids = append(g.ids, c.TokenIDs...)
	if c.Logprobs != nil {
		for _, l := range c.Logprobs.Content {
			g.logprobs = append(g.logprobs, l.Logprob)
		}
	}
	if c.Meta != nil && len(c.TokenIDs) == 0 {
		// SGLang repeats them from the beginning.
		g.ids, g.logprobs = g.ids[:0], g.logprobs[:0]
		for _, t := range c.Meta.Output {
			var l float32
			var id int
			if len(t) < 2 || json.Unmarshal(t[0], &l) != nil || json.Unmarshal(t[1], &id) != nil {
				return "", garbled("meta_info has output_token_logprobs of another form")
			}
			g.ids, g.logprobs = append(g.ids, id), append(g.logprobs, l)
		}
	}
	return text, nil
}

// addCall takes a fragment of a call. Which call it belongs to its index says; without
// one a new id begins a call, and what has none goes on with the last.
func (g *growing) addCall(w *wireCall) *Error {
	var at *growingCall
	switch n := len(g.calls); {
	case w.Index != nil:
		for _, c := range g.calls {
			if c.index == *w.Index {
				at = c
			}
		}
		if at == nil {
			at = &growingCall{index: *w.Index}
		}
	case n > 0 && (w.ID == "" && w.Function.Name == "" || w.ID != "" && w.ID == g.calls[n-1].id):
		at = g.calls[n-1]
	default:
		at = &growingCall{index: n}
		if n > 0 {
			at.index = g.calls[n-1].index + 1
		}
	}
	if !slices.Contains(g.calls, at) {
		if len(g.calls) == maxCalls {
			return garbled("the answer has more than %d tool calls", maxCalls)
		}
		g.calls = append(g.calls, at)
	}
	if w.ID != "" {
		at.id = w.ID
	}
	if w.Function.Name != at.name { // some servers repeat it in every fragment
		at.name += w.Function.Name
	}
	at.arguments.WriteString(string(w.Function.Arguments))
	return nil
}

// answer is what came; a choice that has not ended is an answer that was cut.
func (s *stream) answer() (*Answer, *Error) {
	if len(s.choices) == 0 {
		return nil, garbled("the answer has no choice")
	}
	a := &Answer{Usage: s.usage, PromptTokenIDs: s.prompt}
	for i := range len(s.choices) {
		g := s.choices[i]
		switch {
		case g == nil:
			return nil, garbled("the answer has no choice %d", i)
		case !g.ended:
			return nil, &Error{Fault: Cut, Err: errors.New("the answer ends in the middle")}
		case g.finish == "error", g.finish == "abort":
			return nil, &Error{Fault: Broken, Err: fmt.Errorf("the server ends the answer with %q", g.finish)}
		}
		c := Choice{Content: g.content.String(), Reasoning: g.reasoning.String(), Refusal: g.refusal.String(), Finish: g.finish, TokenIDs: g.ids, Logprobs: g.logprobs}
		if len(c.TokenIDs) > 0 && len(c.Logprobs) > 0 && len(c.TokenIDs) != len(c.Logprobs) {
			return nil, garbled("the answer has %d token ids and %d logprobs", len(c.TokenIDs), len(c.Logprobs))
		}
		slices.SortStableFunc(g.calls, func(a, b *growingCall) int { return a.index - b.index })
		for _, k := range g.calls {
			c.Calls = append(c.Calls, Call{ID: k.id, Name: k.name, Arguments: k.arguments.String()})
		}
		a.Choices = append(a.Choices, c)
	}
	if c := &a.Choices[0]; s.counted && s.usage.Completion == 0 && c.Content+c.Reasoning+c.Refusal == "" && len(c.Calls) == 0 {
		return nil, garbled("the answer is empty: no token was sampled")
	}
	return a, nil
}

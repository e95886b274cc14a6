package scoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// OpenAIModel asks a model behind an OpenAI-compatible server. It is safe for
// concurrent use.
type OpenAIModel struct {
	server *chatserver.Client
	name   string
}

// OpenAI gives the model called name at server. Nothing is asked yet.
func OpenAI(server *chatserver.Client, name string) *OpenAIModel {
	return &OpenAIModel{server, name}
}

// Complete asks for q.N answers. A schema is handed on as response_format; a server
// that refuses it and answers without is asked without from then on. Every failure is
// a diag.Error of KindJudge, since it is evaluators and judges who ask; a question that
// cannot be sent, such as one whose schema is not JSON, is one of KindPlugin.
func (m *OpenAIModel) Complete(ctx context.Context, q *sdk.ModelRequest) (*Answer, error) {
	put := &chatserver.Question{Body: m.body(q)}
	if q.Schema != "" {
		put.Plain = m.body(q)
		put.Body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{
			"name": "answer", "strict": true, "schema": json.RawMessage(q.Schema),
		}}
	}
	got, err := m.server.Ask(ctx, put)
	var no *chatserver.Error
	if errors.As(err, &no) && no.Fault == chatserver.Yours {
		return nil, diag.Wrap(diag.KindPlugin, "ask model", m.name, err)
	}
	if err != nil {
		return nil, m.failed(err)
	}
	a := &Answer{PromptTokens: int64(got.Usage.Prompt), CompletionTokens: int64(got.Usage.Completion), Cost: got.Cost}
	n := int(max(1, q.N))
	if len(got.Choices) < n {
		return nil, m.failed(fmt.Errorf("%s: the answer has %d choices of %d", got.Endpoint, len(got.Choices), n))
	}
	for _, c := range got.Choices[:n] {
		if c.Content == "" && c.Refusal != "" {
			return nil, m.failed(fmt.Errorf("%s: the model refuses: %.200s", got.Endpoint, c.Refusal))
		}
		a.Texts = append(a.Texts, c.Content)
	}
	return a, nil
}

func (m *OpenAIModel) failed(err error) error {
	return &diag.Error{Kind: diag.KindJudge, Op: "ask model", Subject: m.name, Err: err}
}

// body is the request without a schema.
func (m *OpenAIModel) body(r *sdk.ModelRequest) map[string]any {
	messages := make([]map[string]string, len(r.Messages))
	for i, t := range r.Messages {
		messages[i] = map[string]string{"role": t.Role, "content": t.Content}
	}
	b := map[string]any{"model": m.name, "messages": messages, "temperature": r.Temperature}
	if r.MaxTokens > 0 {
		b["max_tokens"] = r.MaxTokens
	}
	if r.Seed != 0 {
		b["seed"] = chatserver.Seed(r.Seed)
	}
	if r.N > 1 {
		b["n"] = r.N
	}
	return b
}

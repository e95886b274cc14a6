package scoring

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// OpenAI gives the Model behind an OpenAI-compatible server, or nil when baseURL
// is empty. key may be empty. Answers that the server refuses for the moment (429,
// 5xx) are asked for again a few times with growing pauses; what fails in the end
// is a diag.Error of KindJudge, since it is evaluators and judges who ask.
func OpenAI(baseURL, model, key string) *OpenAIModel {
	if baseURL == "" {
		return nil
	}
	return &OpenAIModel{url: strings.TrimRight(baseURL, "/") + "/chat/completions", model: model, key: key}
}

// OpenAIModel asks one server for chat completions. It is safe for concurrent use.
type OpenAIModel struct {
	url, model, key string
	client          http.Client
}

// attempts at one request.
const attempts = 4

// Complete asks for r.N answers. It blocks for as long as ctx lets it.
func (m *OpenAIModel) Complete(ctx context.Context, r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := struct {
		Model       string    `json:"model"`
		Messages    []message `json:"messages"`
		Temperature float64   `json:"temperature"`
		MaxTokens   int64     `json:"max_tokens,omitempty"`
		Seed        uint64    `json:"seed,omitempty"`
		N           int64     `json:"n"`
	}{Model: m.model, Temperature: r.Temperature, MaxTokens: r.MaxTokens, Seed: r.Seed >> 1, N: max(1, r.N)}
	for _, t := range r.Messages {
		body.Messages = append(body.Messages, message(t))
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, diag.Wrap(diag.KindJudge, "ask model", m.model, err)
	}
	pause := 500 * time.Millisecond
	for try := 1; ; try++ {
		out, again, err := m.post(ctx, data)
		if err == nil {
			return out, nil
		}
		if !again || try == attempts {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// post asks once; again says whether another attempt may help.
func (m *OpenAIModel) post(ctx context.Context, data []byte) (out *sdk.ModelResponse, again bool, err error) {
	fail := func(format string, args ...any) error {
		return diag.Errorf(diag.KindJudge, "ask model", m.model, format, args...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(data))
	if err != nil {
		return nil, false, fail("%w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if m.key != "" {
		req.Header.Set("Authorization", "Bearer "+m.key)
	}
	res, err := m.client.Do(req)
	if err != nil {
		return nil, ctx.Err() == nil, fail("%w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return nil, ctx.Err() == nil, fail("%w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500, fail("%s answers %s: %.200s", m.url, res.Status, b)
	}
	var got struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &got); err != nil || len(got.Choices) == 0 {
		return nil, false, fail("%s answers with no choice: %.200s", m.url, b)
	}
	out = &sdk.ModelResponse{}
	for _, c := range got.Choices {
		out.Texts = append(out.Texts, c.Message.Content)
	}
	return out, false, nil
}

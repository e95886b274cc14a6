package bpe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// configFile is tokenizer_config.json as far as it concerns a tokenizer of this
// package.
type configFile struct {
	Class      string    `json:"tokenizer_class"`
	Pad        tokenName `json:"pad_token,omitempty"`
	End        tokenName `json:"eos_token,omitempty"`
	Specials   []string  `json:"additional_special_tokens,omitempty"`
	CleanUp    bool      `json:"clean_up_tokenization_spaces"`
	MaxLength  float64   `json:"model_max_length,omitempty"` // others write 1e30 for "unknown"
	PadSide    string    `json:"padding_side,omitempty"`
	Template   string    `json:"chat_template,omitempty"`
	InputNames []string  `json:"model_input_names,omitempty"`

	Response json.RawMessage `json:"response_template,omitempty"`
}

// tokenName is a token's name; some tools write it as an object with its flags.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(data, &object) == nil {
		*n = tokenName(object.Content)
		return nil
	}
	return json.Unmarshal(data, (*string)(n))
}

// unknownLength is more context than any model has: what stands there for "unknown".
const unknownLength = 1 << 30

func loadConfig(dir string) (Config, error) {
	var f struct {
		Pad       tokenName       `json:"pad_token"`
		End       tokenName       `json:"eos_token"`
		MaxLength float64         `json:"model_max_length"`
		Template  json.RawMessage `json:"chat_template"`
		Response  json.RawMessage `json:"response_template"`
	}
	data, err := os.ReadFile(filepath.Join(dir, fileConfig))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Config{}, err
	default:
		if err := json.Unmarshal(data, &f); err != nil {
			return Config{}, err
		}
	}
	c := Config{Pad: string(f.Pad), End: string(f.End)}
	if f.MaxLength > 0 && f.MaxLength < unknownLength {
		c.MaxLength = int(f.MaxLength)
	}
	if !null(f.Template) {
		if json.Unmarshal(f.Template, &c.ChatTemplate) != nil {
			return Config{}, fmt.Errorf("chat_template is not supported: %s; want one template", describe(f.Template))
		}
	}
	if !null(f.Response) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, f.Response); err != nil {
			return Config{}, err
		}
		c.ResponseTemplate = compact.String()
	}
	template, err := os.ReadFile(filepath.Join(dir, fileTemplate))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Config{}, err
	default:
		c.ChatTemplate = string(template)
	}
	return c, nil
}

func (t *Tokenizer) marshalConfig() ([]byte, error) {
	f := configFile{
		Class:      "PreTrainedTokenizerFast",
		Pad:        tokenName(t.settings.Pad),
		End:        tokenName(t.settings.End),
		MaxLength:  float64(t.settings.MaxLength),
		Template:   t.settings.ChatTemplate,
		InputNames: []string{"input_ids", "attention_mask"},
	}
	if r := t.settings.ResponseTemplate; r != "" {
		f.Response = json.RawMessage(r)
	}
	if f.Pad != "" {
		f.PadSide = "left" // batched generation continues from the right end
	}
	for _, name := range t.Specials() {
		if name != t.settings.Pad && name != t.settings.End {
			f.Specials = append(f.Specials, name)
		}
	}
	return indent(f)
}

package gorgonia

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
)

// Config gives a policy's sizes, as config.json does. All sizes are at least 1;
// Heads is a multiple of KVHeads and HeadDim is even. Sizes that are multiples of 32
// compute fastest.
type Config struct {
	Vocab        int // tokens
	Hidden       int // width of the residual stream
	Layers       int
	Heads        int // query heads
	KVHeads      int // key and value heads; Heads for none shared
	HeadDim      int // width of a head
	Intermediate int // width of the MLP
	MaxContext   int // tokens

	RopeTheta float64 // base of the rotary embedding
	RMSEps    float64 // added to the mean square in every RMSNorm

	BOS, EOS, Pad int // token ids noted in config.json; negative: none
}

// DefaultConfig is a policy of about 1.1 million parameters: 512 tokens of
// vocabulary and of context, 5 layers of width 128, 4 heads of 32, no BOS, EOS or
// padding token.
func DefaultConfig() Config {
	return Config{
		Vocab: 512, Hidden: 128, Layers: 5, Heads: 4, KVHeads: 4, HeadDim: 32, Intermediate: 384, MaxContext: 512,
		RopeTheta: 10000, RMSEps: 1e-6, BOS: -1, EOS: -1, Pad: -1,
	}
}

func (c Config) shape() model.Shape {
	return model.Shape{
		Vocab: c.Vocab, Hidden: c.Hidden, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Intermediate: c.Intermediate, MaxContext: c.MaxContext, Theta: c.RopeTheta, Eps: c.RMSEps,
	}
}

// maxParameters bounds a policy's weights: 2³¹ would no longer be a small policy,
// and a damaged config.json must not ask for all the memory there is.
const maxParameters = 1 << 31

// check names the first field that no policy can have.
func (c Config) check() error {
	for _, f := range []struct {
		key   string
		value int
	}{
		{"vocab_size", c.Vocab}, {"hidden_size", c.Hidden}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"intermediate_size", c.Intermediate}, {"max_position_embeddings", c.MaxContext},
	} {
		if f.value < 1 || f.value > 1<<24 {
			return fmt.Errorf("%s = %d is outside 1 to %d", f.key, f.value, 1<<24)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads = %d is no multiple of num_key_value_heads = %d", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("head_dim = %d is odd", c.HeadDim)
	case !(c.RopeTheta > 0) || math.IsInf(c.RopeTheta, 0):
		return fmt.Errorf("rope_theta = %g is not positive", c.RopeTheta)
	case !(c.RMSEps > 0) || math.IsInf(c.RMSEps, 0):
		return fmt.Errorf("rms_norm_eps = %g is not positive", c.RMSEps)
	}
	width, mlp := float64(c.Heads+2*c.KVHeads)*float64(c.HeadDim), 3*float64(c.Intermediate)
	if n := float64(c.Hidden) * (float64(c.Vocab) + float64(c.Layers)*(width+mlp)); n > maxParameters {
		return fmt.Errorf("%.3g parameters are more than the embedded engine takes (%d)", n, maxParameters)
	}
	return nil
}

// document is config.json with every key, so that Save keeps what Open read.
type document map[string]json.RawMessage

// newDocument writes c as Hugging Face's Qwen3Config.
func newDocument(c Config) document {
	d := document{}
	set := func(key string, v any) { d[key], _ = json.Marshal(v) } // plain values always marshal
	id := func(key string, v int) {
		if v < 0 {
			set(key, nil)
			return
		}
		set(key, v)
	}
	set("architectures", []string{"Qwen3ForCausalLM"})
	set("model_type", "qwen3")
	set("vocab_size", c.Vocab)
	set("hidden_size", c.Hidden)
	set("num_hidden_layers", c.Layers)
	set("num_attention_heads", c.Heads)
	set("num_key_value_heads", c.KVHeads)
	set("head_dim", c.HeadDim)
	set("intermediate_size", c.Intermediate)
	set("max_position_embeddings", c.MaxContext)
	set("rope_theta", c.RopeTheta)
	set("rope_scaling", nil)
	set("rms_norm_eps", c.RMSEps)
	set("hidden_act", "silu")
	set("attention_bias", false)
	set("attention_dropout", 0.0)
	set("use_sliding_window", false)
	set("sliding_window", nil)
	set("max_window_layers", c.Layers)
	set("tie_word_embeddings", true)
	set("initializer_range", 0.02)
	set("use_cache", true)
	set("torch_dtype", "float32")
	id("bos_token_id", c.BOS)
	id("eos_token_id", c.EOS)
	id("pad_token_id", c.Pad)
	return d
}

// encode renders the document with sorted keys and one key a line.
func (d document) encode() []byte {
	keys := make([]string, 0, len(d))
	for k := range d {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	b.WriteString("{\n")
	for i, k := range keys {
		name, _ := json.Marshal(k) // a string always marshals
		fmt.Fprintf(&b, "  %s: %s", name, d[k])
		if i < len(keys)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// parseConfig reads config.json and refuses by name what the engine does not
// compute. Keys that do not bear on the logits are kept and not looked at.
func parseConfig(b []byte) (Config, document, error) {
	d := document{}
	if err := json.Unmarshal(b, &d); err != nil {
		return Config{}, nil, err
	}
	var c Config
	var first error
	fail := func(err error) {
		if first == nil {
			first = err
		}
	}
	set := func(key string) bool { return len(d[key]) > 0 && !bytes.Equal(d[key], []byte("null")) }
	read := func(key string, v any, required bool) {
		if !set(key) {
			if required {
				fail(fmt.Errorf("%s is missing", key))
			}
			return
		}
		if err := json.Unmarshal(d[key], v); err != nil {
			fail(fmt.Errorf("%s: %w", key, err))
		}
	}
	// only accepts one value of a key, which is also the meaning of its absence
	// unless required.
	only := func(key string, want any, required bool) {
		w, _ := json.Marshal(want) // plain values always marshal
		var got bytes.Buffer
		if !set(key) {
			if required {
				fail(fmt.Errorf("%s is missing; only %s is honoured", key, w))
			}
			return
		}
		if err := json.Compact(&got, d[key]); err != nil || got.String() != string(w) {
			fail(fmt.Errorf("%s = %s is not honoured; only %s is", key, d[key], w))
		}
	}
	only("model_type", "qwen3", true)
	if set("architectures") {
		only("architectures", []string{"Qwen3ForCausalLM"}, false)
	}
	only("tie_word_embeddings", true, true)
	only("hidden_act", "silu", false)
	only("attention_bias", false, false)
	only("use_sliding_window", false, false)
	var dropout float64
	if read("attention_dropout", &dropout, false); dropout != 0 {
		fail(fmt.Errorf("attention_dropout = %g is not honoured; only 0 is", dropout))
	}
	for _, key := range []string{"rope_scaling", "quantization_config"} {
		var rope struct {
			Type    string `json:"rope_type"`
			OldType string `json:"type"`
		}
		if key == "rope_scaling" && set(key) && json.Unmarshal(d[key], &rope) == nil && (rope.Type == "default" || rope.OldType == "default") {
			continue
		}
		if set(key) {
			fail(fmt.Errorf("%s is not honoured: leave it out or null", key))
		}
	}
	var layers []string
	read("layer_types", &layers, false)
	for _, l := range layers {
		if l != "full_attention" {
			fail(fmt.Errorf("layer_types: %q is not honoured; only \"full_attention\" is", l))
		}
	}
	read("vocab_size", &c.Vocab, true)
	read("hidden_size", &c.Hidden, true)
	read("num_hidden_layers", &c.Layers, true)
	read("num_attention_heads", &c.Heads, true)
	read("num_key_value_heads", &c.KVHeads, true)
	read("head_dim", &c.HeadDim, true)
	read("intermediate_size", &c.Intermediate, true)
	read("max_position_embeddings", &c.MaxContext, true)
	c.RopeTheta, c.RMSEps = 10000, 1e-6 // Qwen3Config's defaults
	read("rope_theta", &c.RopeTheta, false)
	read("rms_norm_eps", &c.RMSEps, false)
	if set("rope_parameters") { // where newer writers put the rotary embedding
		var p struct {
			Theta float64 `json:"rope_theta"`
			Type  string  `json:"rope_type"`
		}
		read("rope_parameters", &p, true)
		if p.Type != "" && p.Type != "default" {
			fail(fmt.Errorf("rope_parameters: rope_type %q is not honoured; only \"default\" is", p.Type))
		}
		if p.Theta != 0 {
			c.RopeTheta = p.Theta
		}
	}
	c.BOS, c.EOS, c.Pad = firstID(d["bos_token_id"]), firstID(d["eos_token_id"]), firstID(d["pad_token_id"])
	if first == nil {
		first = c.check()
	}
	return c, d, first
}

// firstID reads a token id, the first of a list of ids, or −1 for none.
func firstID(raw json.RawMessage) int {
	var one *int
	if json.Unmarshal(raw, &one) == nil && one != nil {
		return *one
	}
	var many []int
	if json.Unmarshal(raw, &many) == nil && len(many) > 0 {
		return many[0]
	}
	return -1
}

// setPrecision notes that the weights are saved as float32.
func (d document) setPrecision() {
	key := "torch_dtype"
	if _, ok := d["dtype"]; ok {
		key = "dtype"
		delete(d, "torch_dtype")
	}
	d[key] = json.RawMessage(`"float32"`)
}

func policyError(op, subject string, err error) error {
	return diag.Wrap(diag.KindPolicy, op, subject, err)
}

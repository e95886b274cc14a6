package gorgonia

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/engine"
	"github.com/valence-rl/valence/core/engine/safetensors"
)

func TestDefaultSize(t *testing.T) {
	if n := DefaultConfig().shape().Size(); n < 1_000_000 || n > 1_200_000 {
		t.Errorf("%d parameters, want about 1.1 million", n)
	}
}

func TestCreateDependsOnSeedAlone(t *testing.T) {
	files := func(seed uint64) (out []byte) {
		dir := t.TempDir()
		if err := Create(dir, small(), seed); err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{configFile, generationFile, modelFile} {
			b, err := os.ReadFile(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		return out
	}
	if !bytes.Equal(files(1), files(1)) || bytes.Equal(files(1), files(2)) {
		t.Error("the files do not depend on the seed alone")
	}
}

func TestConfigRoundTrip(t *testing.T) {
	for _, c := range []Config{small(), DefaultConfig()} {
		got, _, err := parseConfig(newDocument(c).encode())
		if err != nil || got != c {
			t.Errorf("got %+v, %v; want %+v", got, err, c)
		}
	}
}

func TestConfigRefusals(t *testing.T) {
	for key, c := range map[string]struct {
		value string // "": the key is left out
		want  string // "": accepted
	}{
		"model_type":              {`"llama"`, `model_type = "llama"`},
		"architectures":           {`["Qwen3MoeForCausalLM"]`, "architectures"},
		"tie_word_embeddings":     {"", "tie_word_embeddings"},
		"hidden_act":              {`"gelu"`, "hidden_act"},
		"attention_bias":          {"true", "attention_bias"},
		"attention_dropout":       {"0.1", "attention_dropout"},
		"use_sliding_window":      {"true", "use_sliding_window"},
		"rope_scaling":            {`{"rope_type":"yarn","factor":4.0}`, "rope_scaling"},
		"quantization_config":     {`{"bits":4}`, "quantization_config"},
		"layer_types":             {`["full_attention","sliding_attention"]`, "sliding_attention"},
		"head_dim":                {"", "head_dim is missing"},
		"vocab_size":              {`"many"`, "vocab_size"},
		"num_key_value_heads":     {"3", "no multiple"},
		"num_hidden_layers":       {"0", "num_hidden_layers = 0"},
		"hidden_size":             {"16777216", "parameters"},
		"rms_norm_eps":            {"0", "rms_norm_eps"},
		"rope_theta":              {"-1", "rope_theta"},
		"rope_parameters":         {`{"rope_type":"linear","rope_theta":1e4}`, "linear"},
		"max_position_embeddings": {"4e9", "max_position_embeddings"},

		"dtype":        {`"bfloat16"`, ""},
		"eos_token_id": {"[3,4]", ""},
		"unheard_of":   {`{"x":1}`, ""},
	} {
		d := newDocument(small())
		d[key] = json.RawMessage(c.value)
		if c.value == "" {
			delete(d, key)
		}
		_, _, err := parseConfig(d.encode())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", key, c.value, err, c.want)
		}
	}
	d := newDocument(small())
	delete(d, "rope_theta")
	d["rope_parameters"] = json.RawMessage(`{"rope_type":"default","rope_theta":500000.0}`)
	if c, _, err := parseConfig(d.encode()); err != nil || c.RopeTheta != 500000 {
		t.Errorf("rope_parameters: %+v, %v", c, err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(newDocument(small()).encode())
	f.Add([]byte(`{"model_type":"qwen3","tie_word_embeddings":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, d, err := parseConfig(b)
		if err != nil {
			return
		}
		if again, _, err := parseConfig(d.encode()); err != nil || again != c {
			t.Fatalf("accepted %+v, then %+v, %v", c, again, err)
		}
	})
}

// Save keeps config.json's keys and the exact weights, and adds nothing else.
func TestSaveKeepsConfig(t *testing.T) {
	dir := t.TempDir()
	if err := Create(dir, small(), 1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, configFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte("{\n"), []byte("{\n  \"a_key_of_somebody\": [1, 2],\n"), 1)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, generationFile), []byte(`{"top_k": 20}`), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	out := t.TempDir()
	if err := e.Save(out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{configFile: "a_key_of_somebody", generationFile: `{"top_k": 20}`} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s lost %s: %v", name, want, err)
		}
	}
	one, _ := os.ReadFile(filepath.Join(dir, modelFile))
	two, _ := os.ReadFile(filepath.Join(out, modelFile))
	if len(one) == 0 || !bytes.Equal(one, two) {
		t.Error("model.safetensors changed on the way")
	}
}

func TestBadFolders(t *testing.T) {
	edit := func(name string, change func(f *safetensors.File)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			f, err := safetensors.Read(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			change(f)
			var b bytes.Buffer
			if err := f.Encode(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	const q = "model.layers.1.self_attn.q_proj.weight"
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string
	}{
		"no config":   {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, configFile)) }, []string{configFile}},
		"bad config":  {func(t *testing.T, dir string) { os.WriteFile(filepath.Join(dir, configFile), []byte("{"), 0o644) }, []string{configFile}},
		"no weights":  {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, modelFile)) }, []string{modelFile}},
		"cut weights": {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, modelFile), 5000) }, []string{modelFile}},
		"missing":     {edit(modelFile, func(f *safetensors.File) { delete(f.Tensors, q) }), []string{modelFile, q, "missing"}},
		"unknown":     {edit(modelFile, func(f *safetensors.File) { f.Tensors["x.bias"] = safetensors.New([]float32{1}, 1) }), []string{modelFile, `"x.bias"`}},
		"shape":       {edit(modelFile, func(f *safetensors.File) { f.Tensors[q] = safetensors.New([]float32{1}, 1) }), []string{modelFile, q, "[1]", "[24 20]"}},
		"type":        {edit(modelFile, func(f *safetensors.File) { x := f.Tensors[q]; x.DType = "I32"; f.Tensors[q] = x }), []string{q, "I32"}},
		"untied head": {edit(modelFile, func(f *safetensors.File) {
			f.Tensors["lm_head.weight"] = safetensors.New(make([]float32, 37*20), 37, 20)
		}), []string{"lm_head.weight"}},
		"optimizer format":  {edit(optimizerFile, func(f *safetensors.File) { f.Metadata["format"] = "other/2" }), []string{optimizerFile, "other/2"}},
		"optimizer step":    {edit(optimizerFile, func(f *safetensors.File) { f.Metadata["step"] = "-1" }), []string{optimizerFile, "step"}},
		"optimizer moments": {edit(optimizerFile, func(f *safetensors.File) { delete(f.Tensors, "exp_avg_sq."+q) }), []string{optimizerFile, "exp_avg_sq." + q}},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, small(), Options{})
			dir := t.TempDir()
			if err := e.Save(dir); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			before := logprobsOf(t, e, []int{1, 2, 3})
			err := e.Load(dir)
			if err == nil {
				t.Fatal("loaded")
			}
			for _, w := range append(c.want, dir) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v: does not name %s", err, w)
				}
			}
			if k := diag.KindOf(err); k != diag.KindPolicy && k != diag.KindData {
				t.Errorf("kind %q", k)
			}
			for i, lp := range logprobsOf(t, e, []int{1, 2, 3}) {
				if lp != before[i] {
					t.Fatal("a failed Load changed the policy")
				}
			}
		})
	}
	t.Run("other sizes", func(t *testing.T) {
		dir := t.TempDir()
		if err := Create(dir, DefaultConfig(), 1); err != nil {
			t.Fatal(err)
		}
		if err := open(t, small(), Options{}).Load(dir); err == nil {
			t.Fatal("loaded")
		}
	})
}

// A tied output matrix that is spelt out is fine.
func TestTiedHeadIsAccepted(t *testing.T) {
	e := open(t, small(), Options{})
	dir := t.TempDir()
	if err := e.Save(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, modelFile)
	f, err := safetensors.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Tensors["lm_head.weight"] = f.Tensors["model.embed_tokens.weight"]
	var b bytes.Buffer
	if err := f.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := e.Load(dir); err != nil {
		t.Fatal(err)
	}
}

// OptimStep against AdamW in float64, over clipped and unclipped steps.
func TestAdamW(t *testing.T) {
	e := open(t, small(), Options{Threads: 2})
	roughen(e, 2)
	n := len(e.state.weights)
	w, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, x := range e.state.weights {
		w[i] = float64(x)
	}
	ctx := context.Background()
	for step := 1; step <= 6; step++ {
		p := engine.AdamParams{LearningRate: 0.01 * float64(step), WeightDecay: 0.1, ClipNorm: 0.5}
		if step%2 == 0 {
			p.ClipNorm, p.Beta1, p.Beta2, p.Eps = 0, 0.8, 0.99, 1e-4
		}
		if _, err := e.ForwardBackward(ctx, randomData(small(), []int{20, 30}, uint64(step)), engine.Loss{Kind: engine.CrossEntropy}); err != nil {
			t.Fatal(err)
		}
		g := append([]float32{}, e.gradients...)
		res, err := e.OptimStep(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		var norm float64
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
		norm = math.Sqrt(norm)
		if math.Abs(res.GradNorm-norm) > 1e-5*norm || res.Version != step {
			t.Errorf("step %d: %+v, want norm %g", step, res, norm)
		}
		b1, b2, eps, f := 0.9, 0.95, 1e-8, 1.0
		if p.ClipNorm > 0 {
			f = min(1, p.ClipNorm/norm)
		} else {
			b1, b2, eps = p.Beta1, p.Beta2, p.Eps
		}
		for _, q := range e.params {
			decay := 0.0
			if len(q.Shape) == 2 {
				decay = p.WeightDecay
			}
			for i := q.From; i < q.To; i++ {
				d := float64(g[i]) * f
				m[i] = b1*m[i] + (1-b1)*d
				v[i] = b2*v[i] + (1-b2)*d*d
				hm, hv := m[i]/(1-math.Pow(b1, float64(step))), v[i]/(1-math.Pow(b2, float64(step)))
				w[i] -= p.LearningRate * (hm/(math.Sqrt(hv)+eps) + decay*w[i])
			}
		}
		for i := range w {
			if math.Abs(w[i]-float64(e.state.weights[i])) > 2e-4 {
				t.Fatalf("step %d: weight %d is %g, want %g", step, i, e.state.weights[i], w[i])
			}
		}
	}
}

func TestOptimStepRefusals(t *testing.T) {
	e := open(t, small(), Options{})
	ctx := context.Background()
	for _, p := range []engine.AdamParams{{LearningRate: -1}, {LearningRate: math.NaN()}, {Beta1: 1}, {Beta2: -0.1}, {Eps: -1}, {WeightDecay: math.Inf(1)}, {ClipNorm: -1}} {
		if _, err := e.OptimStep(ctx, p); diag.KindOf(err) != diag.KindConfig {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := e.ForwardBackward(ctx, randomData(small(), []int{5}, 1), engine.Loss{Kind: engine.CrossEntropy}); err != nil {
		t.Fatal(err)
	}
	before := append([]float32{}, e.state.weights...)
	e.gradients[3] = float32(math.Inf(1))
	if _, err := e.OptimStep(ctx, engine.AdamParams{LearningRate: 0.1}); err == nil || diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("infinite gradient: %v", err)
	}
	for i, w := range e.state.weights {
		if w != before[i] {
			t.Fatal("an infinite gradient changed the weights")
		}
	}
	if res, err := e.OptimStep(ctx, engine.AdamParams{}); err != nil || res.GradNorm != 0 || res.Version != 1 {
		t.Errorf("after it: %+v, %v", res, err)
	}
}

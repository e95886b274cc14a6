package gorgonia

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
	"github.com/valence-rl/valence/core/engine/safetensors"
)

// The files of a policy folder that are the engine's.
const (
	configFile     = "config.json"
	generationFile = "generation_config.json"
	modelFile      = "model.safetensors"
	optimizerFile  = "optimizer.safetensors"
)

// optimizerFormat names the layout of optimizer.safetensors: exp_avg.<tensor> and
// exp_avg_sq.<tensor> are Adam's moments, the metadata hold step and version.
const optimizerFormat = "valence-adam/1"

// checkpoint is everything a folder holds.
type checkpoint struct {
	config     Config
	document   document
	generation []byte // generation_config.json
	weights    []float32
	m, v       []float32 // nil: the folder has no optimizer state
	step       int       // of Adam
	version    int
}

// Create makes a freshly initialised policy in dir, which exists: config.json,
// generation_config.json and model.safetensors. Its weights depend on c and seed
// alone. Embeddings are normal with deviation 0.02, matrices with 1/√(3·in), those
// that close a residual branch divided by √(2·Layers); norm gains are 1.
func Create(dir string, c Config, seed uint64) error {
	const op = "create policy"
	if err := c.check(); err != nil {
		return policyError(op, dir, err)
	}
	s := c.shape()
	ck := &checkpoint{config: c, document: newDocument(c), weights: make([]float32, s.Size())}
	ck.generation = generation(c)
	r := rand.New(rand.NewPCG(seed, 0x76616c656e6365))
	fill := func(w []float32, deviation float64) {
		for i := range w {
			w[i] = float32(r.NormFloat64() * deviation)
		}
	}
	ones := func(w []float32) {
		for i := range w {
			w[i] = 1
		}
	}
	in := func(n int) float64 { return 1 / math.Sqrt(3*float64(n)) }
	closing := 1 / math.Sqrt(2*float64(s.Layers))
	w := s.Carve(ck.weights)
	fill(w.Embed, 0.02)
	for _, l := range w.Layers {
		fill(l.QKV, in(s.Hidden))
		fill(l.Out, in(s.Q())*closing)
		fill(l.GateUp, in(s.Hidden))
		fill(l.Down, in(s.Intermediate)*closing)
		for _, g := range [][]float32{l.InNorm, l.QNorm, l.KNorm, l.MidNorm} {
			ones(g)
		}
	}
	ones(w.Norm)
	return policyError(op, dir, ck.write(dir))
}

// generation is generation_config.json of a policy that samples from its whole
// distribution.
func generation(c Config) []byte {
	d := document{"do_sample": json.RawMessage("true"), "temperature": json.RawMessage("1.0")}
	for key, id := range map[string]int{"bos_token_id": c.BOS, "eos_token_id": c.EOS, "pad_token_id": c.Pad} {
		if id >= 0 {
			d[key] = json.RawMessage(strconv.Itoa(id))
		}
	}
	return d.encode()
}

// write saves the folder's files, each whole or not at all.
func (ck *checkpoint) write(dir string) error {
	s := ck.config.shape()
	ck.document.setPrecision()
	tensors := func(f *safetensors.File, prefix string, flat []float32) {
		for _, p := range s.Params() {
			f.Tensors[prefix+p.Name] = safetensors.New(flat[p.From:p.To], p.Shape...)
		}
	}
	weights := &safetensors.File{Metadata: map[string]string{"format": "pt"}, Tensors: map[string]safetensors.Tensor{}}
	tensors(weights, "", ck.weights)
	plain := func(b []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(b); return err }
	}
	files := []struct {
		name string
		fill func(io.Writer) error
	}{
		{configFile, plain(ck.document.encode())},
		{generationFile, plain(ck.generation)},
		{modelFile, weights.Encode},
	}
	if ck.m != nil {
		o := &safetensors.File{Tensors: map[string]safetensors.Tensor{}, Metadata: map[string]string{
			"format": optimizerFormat, "step": strconv.Itoa(ck.step), "version": strconv.Itoa(ck.version),
		}}
		tensors(o, "exp_avg.", ck.m)
		tensors(o, "exp_avg_sq.", ck.v)
		files = append(files, struct {
			name string
			fill func(io.Writer) error
		}{optimizerFile, o.Encode})
	}
	for _, f := range files {
		if err := replace(filepath.Join(dir, f.name), f.fill); err != nil {
			return err
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// replace writes a file beside path, makes it durable and renames it.
func replace(path string, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = errors.Join(fill(f), f.Chmod(0o644), f.Sync())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// read loads and checks a whole folder.
func read(dir string) (*checkpoint, error) {
	path := filepath.Join(dir, configFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ck := &checkpoint{}
	if ck.config, ck.document, err = parseConfig(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ck.generation, err = os.ReadFile(filepath.Join(dir, generationFile))
	if errors.Is(err, fs.ErrNotExist) {
		ck.generation = generation(ck.config)
	} else if err != nil {
		return nil, err
	}
	s := ck.config.shape()
	path = filepath.Join(dir, modelFile)
	f, err := safetensors.Read(path)
	if err != nil {
		return nil, err
	}
	// Some writers repeat the tied output matrix.
	if head, ok := f.Tensors["lm_head.weight"]; ok {
		if string(head.Data) != string(f.Tensors["model.embed_tokens.weight"].Data) {
			return nil, fmt.Errorf("%s: lm_head.weight differs from model.embed_tokens.weight, but config.json ties them", path)
		}
		delete(f.Tensors, "lm_head.weight")
	}
	ck.weights = make([]float32, s.Size())
	if err := fill(ck.weights, f, "", s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if n := len(s.Params()); len(f.Tensors) != n {
		return nil, fmt.Errorf("%s: %d tensors, of which the model has %d: %s is unknown", path, len(f.Tensors), n, unknown(f, s))
	}
	path = filepath.Join(dir, optimizerFile)
	o, err := safetensors.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ck, nil
	} else if err != nil {
		return nil, err
	}
	if got := o.Metadata["format"]; got != optimizerFormat {
		return nil, fmt.Errorf("%s: format %q, want %q", path, got, optimizerFormat)
	}
	for key, v := range map[string]*int{"step": &ck.step, "version": &ck.version} {
		if *v, err = strconv.Atoi(o.Metadata[key]); err != nil || *v < 0 {
			return nil, fmt.Errorf("%s: %s %q is no count", path, key, o.Metadata[key])
		}
	}
	ck.m, ck.v = make([]float32, s.Size()), make([]float32, s.Size())
	if err := errors.Join(fill(ck.m, o, "exp_avg.", s), fill(ck.v, o, "exp_avg_sq.", s)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ck, nil
}

// fill copies the file's tensors into the flat slice.
func fill(flat []float32, f *safetensors.File, prefix string, s model.Shape) error {
	for _, p := range s.Params() {
		t, ok := f.Tensors[prefix+p.Name]
		if !ok {
			return fmt.Errorf("tensor %q is missing", prefix+p.Name)
		}
		if fmt.Sprint(t.Shape) != fmt.Sprint(p.Shape) {
			return fmt.Errorf("tensor %q has shape %v, config.json makes it %v", prefix+p.Name, t.Shape, p.Shape)
		}
		if err := t.Float32s(flat[p.From:p.To]); err != nil {
			return fmt.Errorf("tensor %q: %w", prefix+p.Name, err)
		}
	}
	return nil
}

// unknown names a tensor that the model does not have.
func unknown(f *safetensors.File, s model.Shape) string {
	known := map[string]bool{}
	for _, p := range s.Params() {
		known[p.Name] = true
	}
	worst := ""
	for n := range f.Tensors {
		if !known[n] && (worst == "" || n < worst) {
			worst = n
		}
	}
	return strconv.Quote(worst)
}

package bpe

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// The files of a tokenizer in a policy folder.
const (
	fileTokenizer = "tokenizer.json"
	fileConfig    = "tokenizer_config.json"
	fileTemplate  = "chat_template.jinja" // where newer tools keep the chat template
)

// tokenizerFile is tokenizer.json. The parts that must have one value alone are kept
// raw and compared by check.
type tokenizerFile struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         modelPart       `json:"model"`
}

type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type modelPart struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	Unk          *string         `json:"unk_token"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
}

// splitStep and byteStep are the two steps of the pre-tokenizer.
type splitStep struct {
	Type    string `json:"type"`
	Pattern struct {
		Regex string `json:"Regex"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`
}

type byteStep struct {
	Type        string `json:"type"`
	PrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets bool   `json:"trim_offsets"`
	UseRegex    bool   `json:"use_regex"`
}

// Load reads tokenizer.json of a policy folder and, where they are, the chat
// template and the names of tokenizer_config.json. A tokenizer that would give
// other ids here than in the Hugging Face libraries is refused with the name of what
// is not honoured. Errors are of diag.KindPolicy.
func Load(dir string) (*Tokenizer, error) {
	const op = "load tokenizer"
	path := filepath.Join(dir, fileTokenizer)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, op, "", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, op, path, err)
	}
	c, err := loadConfig(dir)
	if err != nil {
		return nil, diag.Wrap(diag.KindPolicy, op, filepath.Join(dir, fileConfig), err)
	}
	if t, err = t.WithConfig(c); err != nil {
		return nil, diag.Wrap(diag.KindPolicy, op, filepath.Join(dir, fileConfig), err)
	}
	return t, nil
}

// Parse reads the contents of a tokenizer.json, as [Load] does.
func Parse(data []byte) (*Tokenizer, error) {
	var f tokenizerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, diag.Errorf(diag.KindPolicy, "parse tokenizer", "", "%w", err)
	}
	if err := f.check(); err != nil {
		return nil, diag.Errorf(diag.KindPolicy, "parse tokenizer", "", "%w", err)
	}
	t, err := f.tokenizer()
	if err != nil {
		return nil, diag.Errorf(diag.KindPolicy, "parse tokenizer", "", "%w", err)
	}
	return t, nil
}

// check refuses everything that changes ids or text and is not done here.
func (f *tokenizerFile) check() error {
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"truncation", f.Truncation}, {"padding", f.Padding}, {"normalizer", f.Normalizer}} {
		if !null(part.raw) {
			return fmt.Errorf("%s is not supported: %s", part.name, describe(part.raw))
		}
	}
	if !addsNothing(f.PostProcessor) {
		return fmt.Errorf("post_processor is not supported: %s", describe(f.PostProcessor))
	}
	if kind(f.Decoder) != "ByteLevel" {
		return fmt.Errorf("decoder is not supported: %s; want ByteLevel", describe(f.Decoder))
	}
	if err := checkPreTokenizer(f.PreTokenizer); err != nil {
		return err
	}
	m := &f.Model
	switch {
	case m.Type != "BPE":
		return fmt.Errorf("model %q is not supported; want BPE", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model.dropout %v is not supported", *m.Dropout)
	case m.Unk != nil:
		return fmt.Errorf("model.unk_token %q is not supported", *m.Unk)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("model.continuing_subword_prefix %q is not supported", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("model.end_of_word_suffix %q is not supported", *m.Suffix)
	case m.ByteFallback:
		return errors.New("model.byte_fallback is not supported")
	case m.IgnoreMerges:
		return errors.New("model.ignore_merges is not supported")
	}
	return nil
}

func checkPreTokenizer(part json.RawMessage) error {
	var seq struct {
		Type  string            `json:"type"`
		Steps []json.RawMessage `json:"pretokenizers"`
	}
	if null(part) || json.Unmarshal(part, &seq) != nil || seq.Type != "Sequence" || len(seq.Steps) != 2 {
		return fmt.Errorf("pre_tokenizer is not supported: %s; want a Sequence of Split and ByteLevel", describe(part))
	}
	var split splitStep
	if json.Unmarshal(seq.Steps[0], &split) != nil || split.Type != "Split" || split.Behavior != "Isolated" || split.Invert {
		return fmt.Errorf("pre_tokenizer is not supported: step 1 is %s; want an isolated Split", describe(seq.Steps[0]))
	}
	if split.Pattern.Regex != Pattern {
		return fmt.Errorf("pre_tokenizer is not supported: split pattern %q; want %q", split.Pattern.Regex, Pattern)
	}
	level := byteStep{UseRegex: true}
	if json.Unmarshal(seq.Steps[1], &level) != nil || level.Type != "ByteLevel" || level.PrefixSpace || level.UseRegex {
		return fmt.Errorf("pre_tokenizer is not supported: step 2 is %s; want ByteLevel without add_prefix_space and use_regex", describe(seq.Steps[1]))
	}
	return nil
}

// addsNothing tells the post-processors that leave ids alone: none, ByteLevel, and
// the template of one sequence that transformers writes when it saves.
func addsNothing(part json.RawMessage) bool {
	var p struct {
		Type   string                       `json:"type"`
		Single []map[string]json.RawMessage `json:"single"`
	}
	if null(part) {
		return true
	}
	if json.Unmarshal(part, &p) != nil {
		return false
	}
	if p.Type != "TemplateProcessing" {
		return p.Type == "ByteLevel"
	}
	return len(p.Single) == 1 && p.Single[0]["Sequence"] != nil
}

// tokenizer builds the tables. check has passed.
func (f *tokenizerFile) tokenizer() (*Tokenizer, error) {
	var vocab map[string]int
	if err := json.Unmarshal(f.Model.Vocab, &vocab); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	t := &Tokenizer{special: map[string]int{}, joins: map[[2]int]join{}, pieces: &cache{}}
	for _, a := range f.AddedTokens {
		switch {
		case !a.Special:
			return nil, fmt.Errorf("added token %q is not supported: it is not special", a.Content)
		case a.SingleWord || a.LStrip || a.RStrip:
			return nil, fmt.Errorf("added token %q is not supported: single_word, lstrip and rstrip must be false", a.Content)
		case a.Content == "":
			return nil, fmt.Errorf("added token %d has no content", a.ID)
		}
		if id, ok := vocab[a.Content]; ok && id != a.ID {
			return nil, fmt.Errorf("added token %q has id %d and in the vocabulary %d", a.Content, a.ID, id)
		}
		if _, ok := t.special[a.Content]; ok {
			return nil, fmt.Errorf("added token %q is given twice", a.Content)
		}
		t.special[a.Content] = a.ID
	}
	size := len(vocab)
	for name := range t.special {
		if _, ok := vocab[name]; !ok {
			size++
		}
	}
	t.text = make([]string, size)
	set := func(id int, token, text string) error {
		if id < 0 || id >= size {
			return fmt.Errorf("token %q has id %d, but there are %d tokens: ids must be 0 and on, without a gap", token, id, size)
		}
		if t.text[id] != "" {
			return fmt.Errorf("token %q shares id %d with another", token, id)
		}
		t.text[id] = text
		return nil
	}
	for name, id := range t.special {
		if err := set(id, name, name); err != nil {
			return nil, err
		}
	}
	bytesSeen := 0
	for token, id := range vocab {
		if _, ok := t.special[token]; ok {
			continue
		}
		text, ok := raw(token)
		if !ok || text == "" {
			return nil, fmt.Errorf("token %q is not in the byte alphabet", token)
		}
		if err := set(id, token, text); err != nil {
			return nil, err
		}
		if len(text) == 1 {
			t.bytes[text[0]] = id
			bytesSeen++
		}
	}
	if bytesSeen != 256 {
		return nil, fmt.Errorf("the vocabulary has %d of the 256 bytes", bytesSeen)
	}
	merges, err := readMerges(f.Model.Merges)
	if err != nil {
		return nil, err
	}
	for rank, m := range merges {
		var ids [3]int
		for i, token := range []string{m[0], m[1], m[0] + m[1]} {
			id, ok := vocab[token]
			if _, special := t.special[token]; !ok || special {
				return nil, fmt.Errorf("merge %d, %q: %q is not a token of the vocabulary", rank, m, token)
			}
			ids[i] = id
		}
		// A pair listed twice has the rank of its last place, as in the tokenizers library.
		t.joins[[2]int{ids[0], ids[1]}] = join{rank, ids[2]}
		t.merges = append(t.merges, [2]int{ids[0], ids[1]})
	}
	return t, nil
}

// readMerges takes both forms of the merge list: pairs, and the older "a b".
func readMerges(part json.RawMessage) ([][2]string, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(part, &list); err != nil {
		return nil, fmt.Errorf("model.merges: %w", err)
	}
	out := make([][2]string, len(list))
	for i, item := range list {
		var pair []string
		var line string
		if json.Unmarshal(item, &line) == nil {
			pair = strings.Split(line, " ")
		} else if err := json.Unmarshal(item, &pair); err != nil {
			return nil, fmt.Errorf("model.merges: %w", err)
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("model.merges: merge %d has %d parts; want 2", i, len(pair))
		}
		out[i] = [2]string(pair)
	}
	return out, nil
}

func null(part json.RawMessage) bool {
	return len(part) == 0 || string(part) == "null"
}

// kind is the type field of a part, or "".
func kind(part json.RawMessage) string {
	var v struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(part, &v) != nil {
		return ""
	}
	return v.Type
}

// describe names a part for a message.
func describe(part json.RawMessage) string {
	if null(part) {
		return "null"
	}
	if k := kind(part); k != "" {
		return k
	}
	const most = 80
	if len(part) > most {
		return string(part[:most]) + "…"
	}
	return string(part)
}

// Save writes tokenizer.json and tokenizer_config.json into dir, which exists. Each
// file appears whole or not at all. A chat_template.jinja that is there is removed,
// because it would win over the template of tokenizer_config.json. Errors are of
// diag.KindPolicy.
func (t *Tokenizer) Save(dir string) error {
	const op = "save tokenizer"
	config, err := t.marshalConfig()
	if err != nil {
		return diag.Wrap(diag.KindPolicy, op, dir, err)
	}
	data, err := t.marshal()
	if err != nil {
		return diag.Wrap(diag.KindPolicy, op, dir, err)
	}
	if err := os.Remove(filepath.Join(dir, fileTemplate)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diag.Wrap(diag.KindPolicy, op, "", err)
	}
	if err := write(filepath.Join(dir, fileConfig), config); err != nil {
		return diag.Wrap(diag.KindPolicy, op, "", err)
	}
	return diag.Wrap(diag.KindPolicy, op, "", write(filepath.Join(dir, fileTokenizer), data))
}

// Digest names the tokenizer: tokenizers with the same one give the same ids. It is
// sha256: and the sum of the vocabulary, the merges and the special tokens.
func (t *Tokenizer) Digest() string {
	data, err := t.marshal()
	if err != nil {
		panic(err) // texts and numbers always have a JSON
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

// write replaces a file by rename once its bytes are on disk.
func write(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// marshal writes tokenizer.json, the vocabulary by ascending id.
func (t *Tokenizer) marshal() ([]byte, error) {
	type sequence struct {
		Type  string `json:"type"`
		Steps []any  `json:"pretokenizers"`
	}
	split := splitStep{Type: "Split", Behavior: "Isolated"}
	split.Pattern.Regex = Pattern
	level := byteStep{Type: "ByteLevel", TrimOffsets: true}
	pre, err := marshal(sequence{"Sequence", []any{split, level}})
	if err != nil {
		return nil, err
	}
	decoder, err := marshal(byteStep{Type: "ByteLevel", PrefixSpace: true, TrimOffsets: true, UseRegex: true})
	if err != nil {
		return nil, err
	}
	f := tokenizerFile{Version: "1.0", AddedTokens: []addedToken{}, PreTokenizer: pre, Decoder: decoder, Model: modelPart{Type: "BPE"}}
	for _, name := range t.Specials() {
		f.AddedTokens = append(f.AddedTokens, addedToken{ID: t.special[name], Content: name, Special: true})
	}
	var vocab bytes.Buffer
	for id := range t.text {
		name, err := marshal(t.token(id))
		if err != nil {
			return nil, err
		}
		sep := byte(',')
		if id == 0 {
			sep = '{'
		}
		vocab.WriteByte(sep)
		fmt.Fprintf(&vocab, "%s:%d", name, id)
	}
	vocab.WriteByte('}')
	f.Model.Vocab = vocab.Bytes()
	merges := make([][2]string, len(t.merges))
	for i, m := range t.merges {
		merges[i] = [2]string{t.token(m[0]), t.token(m[1])}
	}
	if f.Model.Merges, err = marshal(merges); err != nil {
		return nil, err
	}
	return indent(f)
}

// token is an id's name in the vocabulary.
func (t *Tokenizer) token(id int) string {
	if _, ok := t.special[t.text[id]]; ok && t.special[t.text[id]] == id {
		return t.text[id]
	}
	return visible(t.text[id])
}

// marshal is json.Marshal without the escapes meant for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func indent(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

package bpe_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy/bpe"
)

func save(t testing.TB, tok *bpe.Tokenizer) (dir string, data []byte) {
	t.Helper()
	dir = t.TempDir()
	if err := tok.Save(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, data
}

func TestSaveAndLoad(t *testing.T) {
	config := bpe.Config{Pad: "<|pad|>", End: "<|end|>", ChatTemplate: "{{ '<&>' }}", ResponseTemplate: `{"fields":{"content":{"close":"<&>"}}}`, MaxLength: 512}
	tok, err := train(t, 350).WithConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dir, data := save(t, tok)
	back, err := bpe.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config, back.Config()); diff != "" {
		t.Error(diff)
	}
	for _, text := range append(corpus, "<|end|> \xff") {
		if diff := cmp.Diff(tok.Encode(text), back.Encode(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	if tok.Size() != back.Size() || !slices.Equal(tok.Specials(), back.Specials()) {
		t.Errorf("size %d and specials %q became %d and %q", tok.Size(), tok.Specials(), back.Size(), back.Specials())
	}
	if _, again := save(t, back); !bytes.Equal(data, again) {
		t.Error("the second save differs from the first")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("the folder holds %v, %v", names, err)
	}
}

func TestSaveIntoNoFolder(t *testing.T) {
	err := train(t, 300).Save(filepath.Join(t.TempDir(), "none"))
	if diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("got %v", err)
	}
}

func TestWithConfigNeedsSpecials(t *testing.T) {
	_, err := train(t, 300).WithConfig(bpe.Config{End: "<|stop|>"})
	if diag.KindOf(err) != diag.KindPolicy || !strings.Contains(err.Error(), "<|stop|>") {
		t.Errorf("got %v", err)
	}
	if _, err := train(t, 300).WithConfig(bpe.Config{ResponseTemplate: "{"}); diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("got %v", err)
	}
}

func TestLoadConfigOfOthers(t *testing.T) {
	for _, c := range []struct {
		name, config, template string
		want                   bpe.Config
		err                    string
	}{
		{name: "none"},
		{name: "flags", config: `{"pad_token": {"__type": "AddedToken", "content": "<|pad|>", "special": true}, "eos_token": null}`, want: bpe.Config{Pad: "<|pad|>"}},
		{name: "unknown length", config: `{"model_max_length": 1000000000000000019884624838656}`},
		{name: "template in a file of its own", config: `{"chat_template": "old"}`, template: "new", want: bpe.Config{ChatTemplate: "new"}},
		{name: "several templates", config: `{"chat_template": [{"name": "default"}]}`, err: "chat_template is not supported"},
		{name: "no JSON", config: `{`, err: "unexpected end"},
		{name: "unknown token", config: `{"eos_token": "</s>"}`, err: "no such special token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := save(t, train(t, 300))
			path := filepath.Join(dir, "tokenizer_config.json")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{path: c.config, filepath.Join(dir, "chat_template.jinja"): c.template} {
				if text != "" {
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			tok, err := bpe.Load(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || diag.KindOf(err) != diag.KindPolicy {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, tok.Config()); diff != "" {
				t.Error(diff)
			}
			if err := tok.Save(dir); err != nil {
				t.Fatal(err)
			}
			again, err := bpe.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, again.Config()); diff != "" {
				t.Errorf("saved into the same folder: %s", diff)
			}
		})
	}
}

// edit changes one value of a tokenizer.json, by its path.
func edit(t testing.TB, data []byte, value any, path ...any) []byte {
	t.Helper()
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	at := root
	for i, key := range path {
		last := i == len(path)-1
		switch k := key.(type) {
		case string:
			m := at.(map[string]any)
			if last {
				m[k] = value
			}
			at = m[k]
		case int:
			l := at.([]any)
			if last {
				l[k] = value
			}
			at = l[k]
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseRefusesByName(t *testing.T) {
	_, data := save(t, train(t, 270))
	part := func(kind string) any { return map[string]any{"type": kind} }
	for _, c := range []struct {
		value any
		path  []any
		want  string
	}{
		{part("NFC"), []any{"normalizer"}, "normalizer is not supported: NFC"},
		{map[string]any{"max_length": 5}, []any{"truncation"}, `truncation is not supported: {"max_length":5}`},
		{map[string]any{"strategy": "x"}, []any{"padding"}, "padding is not supported"},
		{part("BertProcessing"), []any{"post_processor"}, "post_processor is not supported: BertProcessing"},
		{map[string]any{"type": "TemplateProcessing", "single": []any{map[string]any{"SpecialToken": 1}}}, []any{"post_processor"}, "post_processor is not supported: TemplateProcessing"},
		{part("WordPiece"), []any{"decoder"}, "decoder is not supported: WordPiece"},
		{nil, []any{"pre_tokenizer"}, "pre_tokenizer is not supported: null"},
		{part("Whitespace"), []any{"pre_tokenizer"}, "pre_tokenizer is not supported: Whitespace"},
		{part("Digits"), []any{"pre_tokenizer", "pretokenizers", 0}, "step 1 is Digits"},
		{`\s+`, []any{"pre_tokenizer", "pretokenizers", 0, "pattern", "Regex"}, `split pattern "\\s+"`},
		{"Removed", []any{"pre_tokenizer", "pretokenizers", 0, "behavior"}, "step 1 is Split; want an isolated Split"},
		{true, []any{"pre_tokenizer", "pretokenizers", 1, "use_regex"}, "step 2 is ByteLevel"},
		{true, []any{"pre_tokenizer", "pretokenizers", 1, "add_prefix_space"}, "step 2 is ByteLevel"},
		{"Unigram", []any{"model", "type"}, `model "Unigram" is not supported`},
		{0.1, []any{"model", "dropout"}, "model.dropout 0.1 is not supported"},
		{"<unk>", []any{"model", "unk_token"}, `model.unk_token "<unk>" is not supported`},
		{"##", []any{"model", "continuing_subword_prefix"}, "model.continuing_subword_prefix"},
		{"</w>", []any{"model", "end_of_word_suffix"}, "model.end_of_word_suffix"},
		{true, []any{"model", "byte_fallback"}, "model.byte_fallback is not supported"},
		{true, []any{"model", "ignore_merges"}, "model.ignore_merges is not supported"},
		{false, []any{"added_tokens", 0, "special"}, `added token "<|pad|>" is not supported: it is not special`},
		{true, []any{"added_tokens", 0, "lstrip"}, `added token "<|pad|>" is not supported`},
		{7, []any{"added_tokens", 0, "id"}, `added token "<|pad|>" has id 7 and in the vocabulary 0`},
		{"<|end|>", []any{"added_tokens", 0, "content"}, `added token "<|end|>"`},
		{"", []any{"added_tokens", 0, "content"}, "added token 0 has no content"},
		{5, []any{"model", "vocab", "a"}, "shares id"},
		{-1, []any{"model", "vocab", "a"}, "has id -1"},
		{9999, []any{"model", "vocab", "a"}, "has id 9999, but there are 270 tokens"},
		{270, []any{"model", "vocab", "漢"}, `token "漢" is not in the byte alphabet`},
		{270, []any{"model", "vocab", ""}, `token "" is not in the byte alphabet`},
		{[]any{}, []any{"model", "vocab"}, "model.vocab"},
		{map[string]any{}, []any{"model", "vocab"}, "the vocabulary has 0 of the 256 bytes"},
		{[]any{[]any{"a", "qqq"}}, []any{"model", "merges"}, `"qqq" is not a token of the vocabulary`},
		{[]any{[]any{"q", "z"}}, []any{"model", "merges"}, `"qz" is not a token of the vocabulary`},
		{[]any{"a b c"}, []any{"model", "merges"}, "merge 0 has 3 parts"},
		{[]any{1}, []any{"model", "merges"}, "model.merges"},
		{"", []any{"model", "merges"}, "model.merges"},
	} {
		_, err := bpe.Parse(edit(t, data, c.value, c.path...))
		if err == nil || !strings.Contains(err.Error(), c.want) || diag.KindOf(err) != diag.KindPolicy {
			t.Errorf("%v = %v: got %v, want %q", c.path, c.value, err, c.want)
		}
	}
}

func TestParseTakesEqualForms(t *testing.T) {
	tok := train(t, 350)
	_, data := save(t, tok)
	var file struct {
		Model struct{ Merges [][2]string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range file.Model.Merges {
		lines = append(lines, m[0]+" "+m[1])
	}
	whole := map[string]any{"type": "TemplateProcessing", "single": []any{map[string]any{"Sequence": map[string]any{"id": "A"}}}}
	for _, c := range []struct {
		value any
		path  []any
	}{
		{lines, []any{"model", "merges"}},
		{map[string]any{"type": "ByteLevel"}, []any{"post_processor"}},
		{whole, []any{"post_processor"}},
		{"", []any{"model", "end_of_word_suffix"}},
		{true, []any{"added_tokens", 0, "normalized"}},
	} {
		back, err := bpe.Parse(edit(t, data, c.value, c.path...))
		if err != nil {
			t.Errorf("%v: %v", c.path, err)
			continue
		}
		if text := strings.Join(corpus, ""); !slices.Equal(tok.Encode(text), back.Encode(text)) {
			t.Errorf("%v: other ids", c.path)
		}
	}
}

func TestLoadNothing(t *testing.T) {
	if _, err := bpe.Load(t.TempDir()); diag.KindOf(err) != diag.KindPolicy {
		t.Errorf("got %v", err)
	}
}

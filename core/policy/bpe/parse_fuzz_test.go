package bpe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzParse puts hostile parts into a tokenizer.json that has the 256 bytes.
// Whatever is accepted encodes any text there and back, and is the same once written
// and read again.
func FuzzParse(f *testing.F) {
	base, err := Train(slices.Values([]string{}), 256, nil)
	if err != nil {
		f.Fatal(err)
	}
	var alphabet []string
	for id := range base.text {
		name, err := marshal(base.token(id))
		if err != nil {
			f.Fatal(err)
		}
		alphabet = append(alphabet, fmt.Sprintf("%s:%d", name, id))
	}
	const (
		split = `{"type":"Split","pattern":{"Regex":"\\n *|[A-Za-z]+|\\d|, ?|[^A-Za-z\\d]"},"behavior":"Isolated","invert":false}`
		level = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`
		pre   = `{"type":"Sequence","pretokenizers":[` + split + `,` + level + `]}`
	)
	f.Add("[]", pre, "null", "", "[]", "any text")
	f.Add(`[{"id":258,"content":"<|end|>","special":true}]`, pre, `{"type":"ByteLevel"}`, `,"ab":256,"abc":257`, `[["a","b"],["ab","c"]]`, "abc<|end|>")
	f.Add(`[{"id":0,"content":"!","special":true}]`, pre, "null", `,"aa":256`, `["a a","a a"]`, "aaaa!\xff")
	f.Add("[]", `{"type":"ByteLevel"}`, "{}", `,"a":3`, `[["ab"]]`, "漢\n  x")
	f.Fuzz(func(t *testing.T, added, pre, post, vocab, merges, text string) {
		file := fmt.Sprintf(`{"added_tokens":%s,"pre_tokenizer":%s,"post_processor":%s,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{%s%s},"merges":%s}}`,
			added, pre, post, strings.Join(alphabet, ","), vocab, merges)
		tok, err := Parse([]byte(file))
		if err != nil {
			return
		}
		ids := tok.Encode(text)
		if got := tok.Decode(ids); got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		data, err := tok.marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ids, back.Encode(text)) || !slices.Equal(tok.text, back.text) {
			t.Fatal("written and read again it is another tokenizer")
		}
	})
}

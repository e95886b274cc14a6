// Package bpe is byte-level byte-pair encoding: training, encoding and decoding, and
// the tokenizer.json and tokenizer_config.json by which the Hugging Face libraries
// load the same tokenizer and give the same ids.
//
// Text is cut by [Pattern] into pieces, and the bytes of each piece are joined by
// the learnt merges in the order in which they were learnt (Sennrich et al. 2016,
// arXiv 1508.07909; over bytes as in GPT-2). All 256 bytes are tokens, so any string
// can be encoded and comes back unchanged, valid UTF-8 or not.
//
// Ids are laid out as special tokens, then bytes in the order of their printable
// runes, then merges in the order of learning.
package bpe

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy"
)

// Tokenizer maps text to ids and back. It does not change after it was made and is
// safe for concurrent use. It implements [policy.Tokenizer].
type Tokenizer struct {
	text     []string       // of each id: raw bytes; a special token's name
	special  map[string]int // name → id
	bytes    [256]int       // id of each byte
	merges   [][2]int       // in the order of learning
	joins    map[[2]int]join
	pieces   *cache
	settings Config
}

var _ policy.Tokenizer = (*Tokenizer)(nil)

// join is what a pair becomes. The lower rank is applied first.
type join struct{ rank, id int }

// Config is what tokenizer_config.json says beside the tokens themselves. Every
// field may be empty.
type Config struct {
	Pad          string // special token that fills batches
	End          string // special token that ends a turn; generation stops there
	ChatTemplate string // Jinja, as rendered by apply_chat_template
	MaxLength    int    // tokens of context that the model was made for

	// How servers of the transformers library read what the model wrote: a JSON object
	// as their parse_response takes it; "" leaves it to them, who guess by the model's
	// architecture.
	ResponseTemplate string
}

// Config is what the tokenizer was loaded with or given by [Tokenizer.WithConfig].
func (t *Tokenizer) Config() Config { return t.settings }

// WithConfig gives the same tokenizer with another Config. Pad and End must name
// special tokens; the error is of diag.KindPolicy.
func (t *Tokenizer) WithConfig(c Config) (*Tokenizer, error) {
	for _, name := range []string{c.Pad, c.End} {
		if _, ok := t.special[name]; name != "" && !ok {
			return nil, diag.Errorf(diag.KindPolicy, "configure tokenizer", name, "no such special token; there are %q", t.Specials())
		}
	}
	if c.ResponseTemplate != "" && !json.Valid([]byte(c.ResponseTemplate)) {
		return nil, diag.Errorf(diag.KindPolicy, "configure tokenizer", "", "the response template is not JSON")
	}
	out := *t
	out.settings = c
	return &out, nil
}

// Encode gives the ids of text. The names of special tokens are text like any
// other here, so tool output cannot forge a turn. (The Hugging Face libraries do
// the same when asked for split_special_tokens.)
func (t *Tokenizer) Encode(text string) []int {
	out := make([]int, 0, len(text)/2+1)
	for len(text) > 0 {
		n := pieceLen(text)
		out = t.appendPiece(out, text[:n])
		text = text[n:]
	}
	return out
}

func (t *Tokenizer) appendPiece(out []int, piece string) []int {
	if len(piece) == 1 {
		return append(out, t.bytes[piece[0]])
	}
	if ids, ok := t.pieces.get(piece); ok {
		return append(out, ids...)
	}
	ids := make([]int, len(piece))
	for i := range len(piece) {
		ids[i] = t.bytes[piece[i]]
	}
	ids = t.merge(ids)
	t.pieces.put(piece, ids)
	return append(out, ids...)
}

// Decode is the inverse of Encode. Special tokens are written by their names and
// ids outside the vocabulary are left out. The result need not be valid UTF-8: a
// policy may sample any sequence of bytes.
func (t *Tokenizer) Decode(ids []int) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 0 && id < len(t.text) {
			b.WriteString(t.text[id])
		}
	}
	return b.String()
}

// Special gives the id of a special token.
func (t *Tokenizer) Special(name string) (id int, ok bool) {
	id, ok = t.special[name]
	return id, ok
}

// Specials lists the special tokens by ascending id.
func (t *Tokenizer) Specials() []string {
	return slices.SortedFunc(maps.Keys(t.special), func(a, b string) int { return t.special[a] - t.special[b] })
}

// Size is the number of tokens; ids are 0…Size()-1.
func (t *Tokenizer) Size() int { return len(t.text) }

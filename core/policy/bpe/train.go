package bpe

import (
	"container/heap"
	"iter"
	"maps"
	"slices"

	"github.com/valence-rl/valence/core/diag"
)

// Train learns a tokenizer of at most size tokens: specials, 256 bytes, and merges.
// There are fewer when the texts hold no pair more. Each merge joins the pair that
// occurs most often; of pairs that occur equally often the one with the lower ids is
// taken, so the result depends on the texts alone, not on their order. It is the
// trainer of the Hugging Face tokenizers library with min_frequency 0 and the whole
// byte alphabet, and learns the same merges (that one may list a pair twice, when the
// pair comes back after another merge has led to the same token).
//
// Special tokens get the ids from 0 on. Each has at least two characters, all of
// them printable ASCII and one of them no letter, so that no merge can spell it.
// Errors are of diag.KindConfig.
func Train(texts iter.Seq[string], size int, specials []string) (*Tokenizer, error) {
	const op = "train tokenizer"
	if low := len(specials) + 256; size < low {
		return nil, diag.Errorf(diag.KindConfig, op, "", "size %d is too small for 256 bytes and %d special tokens", size, len(specials))
	}
	for i, s := range specials {
		if err := checkSpecial(s); err != "" {
			return nil, diag.Errorf(diag.KindConfig, op, s, "%s", err)
		}
		if slices.Contains(specials[:i], s) {
			return nil, diag.Errorf(diag.KindConfig, op, s, "special token given twice")
		}
	}
	t := &Tokenizer{text: slices.Clone(specials), special: map[string]int{}, joins: map[[2]int]join{}, pieces: &cache{}}
	for id, s := range specials {
		t.special[s] = id
	}
	alphabet := slices.Sorted(maps.Keys(byteOf))
	for _, r := range alphabet {
		t.bytes[byteOf[r]] = len(t.text)
		t.text = append(t.text, string([]byte{byteOf[r]}))
	}
	newCounts(t, texts).learn(t, size)
	return t, nil
}

// checkSpecial says what is wrong with a special token's name, or nothing.
func checkSpecial(s string) string {
	if len(s) < 2 {
		return "a special token has at least two characters"
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return "a special token is printable ASCII without blanks"
		}
	}
	if pieceLen(s) == len(s) {
		return "a special token of letters alone could be a merge"
	}
	return ""
}

// word is a distinct piece of the texts, as tokens.
type word struct {
	ids   []int
	count int // occurrences in the texts
}

// counts is the trainer's state.
type counts struct {
	words []word
	pairs map[[2]int]int              // occurrences in the texts
	where map[[2]int]map[int]struct{} // words that hold the pair, or held it once
	queue pairs
}

func newCounts(t *Tokenizer, texts iter.Seq[string]) *counts {
	seen := map[string]int{}
	for text := range texts {
		for len(text) > 0 {
			n := pieceLen(text)
			seen[text[:n]]++
			text = text[n:]
		}
	}
	c := &counts{pairs: map[[2]int]int{}, where: map[[2]int]map[int]struct{}{}}
	for _, piece := range slices.Sorted(maps.Keys(seen)) {
		if len(piece) < 2 {
			continue
		}
		w := word{count: seen[piece]}
		for i := range len(piece) {
			w.ids = append(w.ids, t.bytes[piece[i]])
		}
		c.words = append(c.words, w)
		c.count(len(c.words)-1, 1, nil)
	}
	for p, n := range c.pairs {
		c.queue = append(c.queue, pairCount{p, n})
	}
	heap.Init(&c.queue)
	return c
}

// count adds a word's pairs, times sign, and notes them in touched.
func (c *counts) count(at, sign int, touched map[[2]int]struct{}) {
	w := c.words[at]
	for i := 0; i+1 < len(w.ids); i++ {
		p := [2]int{w.ids[i], w.ids[i+1]}
		c.pairs[p] += sign * w.count
		if sign > 0 {
			if c.where[p] == nil {
				c.where[p] = map[int]struct{}{}
			}
			c.where[p][at] = struct{}{}
		}
		if touched != nil {
			touched[p] = struct{}{}
		}
	}
}

// learn adds merges to t until it has size tokens or no pair is left.
func (c *counts) learn(t *Tokenizer, size int) {
	ids := map[string]int{} // by bytes: two merges may lead to the same token
	for id := len(t.special); id < len(t.text); id++ {
		ids[t.text[id]] = id
	}
	for len(t.text) < size && len(c.queue) > 0 {
		top := heap.Pop(&c.queue).(pairCount)
		if now := c.pairs[top.pair]; now != top.count {
			continue // an entry with the present count was queued when it changed
		}
		if top.count < 1 {
			return
		}
		text := t.text[top.pair[0]] + t.text[top.pair[1]]
		id, known := ids[text]
		if !known {
			id = len(t.text)
			ids[text] = id
			t.text = append(t.text, text)
		}
		if _, learnt := t.joins[top.pair]; !learnt {
			t.joins[top.pair] = join{len(t.merges), id}
			t.merges = append(t.merges, top.pair)
		}

		touched := map[[2]int]struct{}{}
		for at := range c.where[top.pair] {
			c.count(at, -1, touched)
			c.words[at].ids = replace(c.words[at].ids, top.pair, id)
			c.count(at, 1, touched)
		}
		delete(c.where, top.pair)
		delete(c.pairs, top.pair)
		delete(touched, top.pair)
		for p := range touched {
			if n := c.pairs[p]; n > 0 {
				heap.Push(&c.queue, pairCount{p, n})
			} else {
				delete(c.pairs, p)
			}
		}
	}
}

// replace joins every occurrence of pair, left to right, in place.
func replace(ids []int, pair [2]int, id int) []int {
	out := ids[:0]
	for i := 0; i < len(ids); i++ {
		if i+1 < len(ids) && ids[i] == pair[0] && ids[i+1] == pair[1] {
			out = append(out, id)
			i++
		} else {
			out = append(out, ids[i])
		}
	}
	return out
}

// pairCount is a pair with its count when it was queued.
type pairCount struct {
	pair  [2]int
	count int
}

// pairs is a heap: the highest count first, then the lowest ids.
type pairs []pairCount

func (q pairs) Len() int      { return len(q) }
func (q pairs) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q pairs) Less(i, j int) bool {
	if q[i].count != q[j].count {
		return q[i].count > q[j].count
	}
	return slices.Compare(q[i].pair[:], q[j].pair[:]) < 0
}
func (q *pairs) Push(x any) { *q = append(*q, x.(pairCount)) }
func (q *pairs) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

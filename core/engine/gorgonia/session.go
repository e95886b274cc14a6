package gorgonia

import (
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/decode"
	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
)

// session is what is kept of a conversation between two Samples.
type session struct {
	cache  decode.Cache
	tokens []int // whose keys and values the cache holds
	used   uint64
}

// sessions keeps idle conversations' caches, all of the current weights, up to a
// limit of bytes that unused pages share; the one unused for longest goes first. The loop's mutex guards it.
type sessions struct {
	shape model.Shape
	pages *decode.Pages
	limit int
	bytes int
	clock uint64
	idle  map[string]*session
}

// take hands over a conversation's cache, cut to the tokens it shares with prompt
// and at least one short of it: the last token is fed for its logits.
func (s *sessions) take(id string, prompt []int) (decode.Cache, int) {
	k := s.idle[id]
	if id == "" || k == nil {
		return decode.Cache{}, 0
	}
	delete(s.idle, id)
	s.bytes -= k.cache.Bytes(s.shape)
	n := 0
	for n < len(k.tokens) && n < len(prompt)-1 && k.tokens[n] == prompt[n] {
		n++
	}
	k.cache.Shrink(s.pages, n)
	return k.cache, n
}

// put keeps a cache, or frees it when the conversation has no name.
func (s *sessions) put(id string, c decode.Cache, tokens []int) {
	if id == "" {
		c.Shrink(s.pages, 0)
		s.pages.Trim(s.limit - s.bytes)
		return
	}
	s.drop(id)
	s.clock++
	s.idle[id] = &session{c, tokens, s.clock}
	s.bytes += c.Bytes(s.shape)
	for s.bytes > s.limit {
		oldest := ""
		for id, k := range s.idle {
			if oldest == "" || k.used < s.idle[oldest].used {
				oldest = id
			}
		}
		s.drop(oldest)
	}
	s.pages.Trim(s.limit - s.bytes)
}

// drop forgets a conversation.
func (s *sessions) drop(id string) {
	if k := s.idle[id]; k != nil {
		delete(s.idle, id)
		s.bytes -= k.cache.Bytes(s.shape)
		k.cache.Shrink(s.pages, 0)
	}
}

// dropAll forgets every conversation: the weights have changed.
func (s *sessions) dropAll() {
	for id := range s.idle {
		s.drop(id)
	}
	s.pages.Trim(s.limit - s.bytes)
}

package decode

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/engine/gorgonia/internal/model"
)

var shape = model.Shape{Vocab: 19, Hidden: 16, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32, Intermediate: 24, MaxContext: 96, Theta: 10000, Eps: 1e-6}

func newDecoder() *Decoder {
	r := rand.New(rand.NewPCG(1, 2))
	flat := make([]float32, shape.Size())
	for i := range flat {
		flat[i] = float32(r.NormFloat64() * 0.3)
	}
	d := New(shape, model.NewRotations(shape), shape.Carve(flat))
	d.Refresh()
	return d
}

// However a sequence is cut into passes, alone or beside others, its logits have the
// same bits.
func TestPassesChangeNothing(t *testing.T) {
	d := newDecoder()
	pages := NewPages(shape)
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.IntRange(0, shape.Vocab-1), 1, shape.MaxContext).Draw(t, "tokens")
		var whole, cut, other Cache
		whole.Grow(pages, len(tokens))
		want := make([]float32, shape.Vocab)
		d.Forward(&Scratch{}, []Item{{Tokens: tokens, Cache: &whole, Logits: want}})

		var s Scratch
		got := make([]float32, shape.Vocab)
		for at := 0; at < len(tokens); {
			n := rapid.IntRange(1, len(tokens)-at).Draw(t, "share")
			cut.Grow(pages, at+n)
			items := []Item{{Tokens: tokens[at : at+n], Pos: at, Cache: &cut, Logits: got}}
			if rapid.Bool().Draw(t, "beside another") {
				other.Grow(pages, 5)
				items = slices.Insert(items, rapid.IntRange(0, 1).Draw(t, "place"), Item{Tokens: []int{1, 2, 3, 4, 5}, Cache: &other})
			}
			d.Forward(&s, items)
			at += n
		}
		if !slices.Equal(got, want) {
			t.Fatal("the logits differ")
		}
		whole.Shrink(pages, 0) // full pages are handed out again
		cut.Shrink(pages, 0)
		other.Shrink(pages, 0)
	})
}

// A page given back with infinite values in it harms nobody.
func TestPagesAreCleared(t *testing.T) {
	d := newDecoder()
	pages := NewPages(shape)
	logits := func() []float32 {
		var c Cache
		c.Grow(pages, 3)
		out := make([]float32, shape.Vocab)
		d.Forward(&Scratch{}, []Item{{Tokens: []int{1, 2, 3}, Cache: &c, Logits: out}})
		for _, p := range c.pages {
			for i := range p {
				p[i] = float32(math.Inf(1))
			}
		}
		c.Shrink(pages, 0)
		return out
	}
	if !slices.Equal(logits(), logits()) {
		t.Error("a page's earlier content shows")
	}
}

func TestPagesAreTrimmed(t *testing.T) {
	pages := NewPages(shape)
	var c Cache
	c.Grow(pages, 3*model.Page)
	if got, want := c.Bytes(shape), 3*4*shape.PageLen(); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	c.Shrink(pages, model.Page+1)
	if len(c.pages) != 2 || len(pages.free) != 1 {
		t.Errorf("%d pages held, %d free; want 2 and 1", len(c.pages), len(pages.free))
	}
	c.Shrink(pages, 0)
	pages.Trim(2 * 4 * shape.PageLen())
	if len(pages.free) != 2 {
		t.Errorf("%d free pages, want 2", len(pages.free))
	}
	pages.Trim(-1)
	if len(pages.free) != 0 {
		t.Errorf("%d free pages, want 0", len(pages.free))
	}
}

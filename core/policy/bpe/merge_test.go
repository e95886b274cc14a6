package bpe

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Both ways of merging give the same ids.
func TestMergeLongIsMergeShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[abc]{0,60}`)
		tok, err := Train(slices.Values(rapid.SliceOfN(text, 1, 5).Draw(t, "texts")), 256+rapid.IntRange(0, 30).Draw(t, "merges"), nil)
		if err != nil {
			t.Fatal(err)
		}
		piece := rapid.StringMatching(`[abc]{0,200}`).Draw(t, "piece")
		ids := make([]int, len(piece))
		for i := range len(piece) {
			ids[i] = tok.bytes[piece[i]]
		}
		short, long := tok.mergeShort(slices.Clone(ids)), tok.mergeLong(slices.Clone(ids))
		if !slices.Equal(short, long) {
			t.Fatalf("short %v, long %v", short, long)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	c := &cache{}
	for i := range maxCached + 100 {
		c.put(string(rune('a'+i%26))+string(rune(0x4E00+i)), []int{i})
	}
	c.put(string(make([]byte, maxPiece+1)), nil)
	n := 0
	c.ids.Range(func(any, any) bool { n++; return true })
	if n != maxCached {
		t.Errorf("%d pieces, want %d", n, maxCached)
	}
}

package bpe_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/policy/bpe"
)

var specials = []string{"<|pad|>", "<|end|>"}

var corpus = []string{
	"def total(values):\n    out = 0\n    for value in values:\n        out += value\n    return out\n",
	"def item_price(item, tax=12):\n    return item.price * (100 + tax) / 100\n",
	"été, 漢字, 漢字 and totals of 12, 345 values\n\n",
}

func train(t testing.TB, size int) *bpe.Tokenizer {
	t.Helper()
	tok, err := bpe.Train(slices.Values(corpus), size, specials)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// tokens writes each id as text.
func tokens(tok *bpe.Tokenizer, text string) []string {
	var out []string
	for _, id := range tok.Encode(text) {
		out = append(out, tok.Decode([]int{id}))
	}
	return out
}

func TestEncodeCutsByPattern(t *testing.T) {
	tok := train(t, 400)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"total", []string{"total"}},
		{" total", []string{" ", "total"}},
		{"total,total, total", []string{"total", ",", "total", ", ", "total"}},
		{"total12", []string{"total", "1", "2"}},
		{"item_price", []string{"item", "_", "price"}},
		{"\n    return", []string{"\n    ", "return"}},
		{"\n\n", []string{"\n", "\n"}},
		{"\r\n\ttotal", []string{"\r", "\n", "\t", "total"}},
		{"<|end|>", []string{"<", "|", "e", "n", "d", "|", ">"}},
		{"漢", []string{"漢"}},
		{"٣", []string{"\xd9", "\xa3"}},
		{"é\xff", []string{"é", "\xff"}},
	} {
		if diff := cmp.Diff(c.want, tokens(tok, c.text)); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

func TestDecode(t *testing.T) {
	tok := train(t, 300)
	end, ok := tok.Special("<|end|>")
	if !ok || end != 1 {
		t.Fatalf("<|end|> has id %d, %v", end, ok)
	}
	ids := append([]int{-1, end}, append(tok.Encode("a"), tok.Size(), 1<<40)...)
	if got := tok.Decode(ids); got != "<|end|>a" {
		t.Errorf("got %q", got)
	}
	if _, ok := tok.Special("total"); ok {
		t.Error("a word is special")
	}
	if diff := cmp.Diff(specials, tok.Specials()); diff != "" {
		t.Error(diff)
	}
}

// A name has the same tokens whatever stands around it.
func TestNamesHaveTheSameTokensEverywhere(t *testing.T) {
	tok := train(t, 320)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z]{1,80}`).Draw(t, "name")
		edge := rapid.Map(rapid.String(), func(s string) string {
			return strings.TrimFunc(s, func(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' })
		})
		before, after := edge.Draw(t, "before"), edge.Draw(t, "after")
		want := slices.Concat(tok.Encode(before), tok.Encode(name), tok.Encode(after))
		if diff := cmp.Diff(want, tok.Encode(before+name+after)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEncodeConcurrently(t *testing.T) {
	text := strings.Join(corpus, "")
	want := train(t, 350).Encode(text)
	tok := train(t, 350)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := tok.Encode(text); !slices.Equal(want, got) {
				t.Errorf("got %v", got)
			}
		})
	}
	wg.Wait()
}

func FuzzRoundTrip(f *testing.F) {
	tok := train(f, 400)
	for _, s := range append(corpus, "", "<|end|>", "\xff\xfe", strings.Repeat("total", 100), "\n"+strings.Repeat(" ", 200)) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text)
		if got := tok.Decode(ids); got != text {
			t.Fatalf("got %q", got)
		}
		for _, id := range ids {
			if id < len(specials) {
				t.Fatalf("%q holds the special token %d", text, id)
			}
		}
		if again := tok.Encode(text); !slices.Equal(ids, again) {
			t.Fatalf("from the cache: %v, before %v", again, ids)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := train(b, 400)
	text := strings.Repeat(strings.Join(corpus, ""), 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}

// One piece of a megabyte, as hostile tool output may hold.
func BenchmarkEncodeLongPiece(b *testing.B) {
	tok := train(b, 400)
	text := strings.Repeat("totalvalue", 100_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text)
	}
}

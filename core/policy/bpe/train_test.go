package bpe_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/policy/bpe"
)

// learnt lists the tokens after the bytes.
func learnt(tok *bpe.Tokenizer) []string {
	var out []string
	for id := len(tok.Specials()) + 256; id < tok.Size(); id++ {
		out = append(out, tok.Decode([]int{id}))
	}
	return out
}

func TestTrainTakesTheMostFrequentPair(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []string
		size  int
		want  []string
	}{
		{"nothing", nil, 300, nil},
		{"no pair", []string{"a b", "1234"}, 300, nil},
		{"no room", []string{"abab"}, 256, nil},
		{"counts", []string{"bc bc bc", "ab ab"}, 258, []string{"bc", "ab"}},
		{"a tie goes to the lower ids", []string{"cd ab"}, 258, []string{"ab", "cd"}},
		{"upper case before lower", []string{"ab AB"}, 257, []string{"AB"}},
		{"grows", []string{"abcd abcd abx"}, 300, []string{"ab", "cd", "abcd", "abx"}},
		{"repeats", []string{"aaaaa"}, 300, []string{"aa", "aaa", "aaaaa"}},
		{"no token over a border", []string{strings.Repeat("a1 a=", 9)}, 300, nil},
		{"line break with indentation", []string{"\n  a\n  b"}, 300, []string{"\n ", "\n  "}},
	} {
		tok, err := bpe.Train(slices.Values(c.texts), c.size, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, learnt(tok)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	for _, c := range []struct {
		size     int
		specials []string
		want     string
	}{
		{256, specials, "train tokenizer: size 256 is too small for 256 bytes and 2 special tokens"},
		{300, []string{"<a>", "<a>"}, "train tokenizer: <a>: special token given twice"},
		{300, []string{""}, "train tokenizer: a special token has at least two characters"},
		{300, []string{"end"}, "train tokenizer: end: a special token of letters alone could be a merge"},
		{300, []string{"<a b>"}, "train tokenizer: <a b>: a special token is printable ASCII without blanks"},
		{300, []string{"Ġ."}, "train tokenizer: Ġ.: a special token is printable ASCII without blanks"},
	} {
		_, err := bpe.Train(slices.Values(corpus), c.size, c.specials)
		if err == nil || err.Error() != c.want || diag.KindOf(err) != diag.KindConfig {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// slow is training by its definition: count everything anew before each merge.
func slow(texts []string, merges int) []string {
	base, err := bpe.Train(slices.Values([]string{}), 256, nil)
	if err != nil {
		panic(err)
	}
	names := make([]string, 256)
	for id := range names {
		names[id] = base.Decode([]int{id})
	}
	var words [][]int // letters only, split at blanks
	for _, text := range texts {
		for _, w := range strings.Fields(text) {
			words = append(words, base.Encode(w))
		}
	}
	var out []string
	for len(out) < merges {
		counts := map[[2]int]int{}
		for _, w := range words {
			for i := 0; i+1 < len(w); i++ {
				counts[[2]int{w[i], w[i+1]}]++
			}
		}
		var best [2]int
		for p, n := range counts {
			if m := counts[best]; n > m || n == m && slices.Compare(p[:], best[:]) < 0 {
				best = p
			}
		}
		if counts[best] == 0 {
			return out
		}
		text := names[best[0]] + names[best[1]]
		id := slices.Index(names, text)
		if id < 0 {
			id = len(names)
			names = append(names, text)
			out = append(out, text)
		}
		for k, w := range words {
			var joined []int
			for i := 0; i < len(w); i++ {
				if i+1 < len(w) && w[i] == best[0] && w[i+1] == best[1] {
					joined = append(joined, id)
					i++
				} else {
					joined = append(joined, w[i])
				}
			}
			words[k] = joined
		}
	}
	return out
}

func TestTrainIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`([abc]{1,12} ){1,6}`), 0, 4).Draw(t, "texts")
		merges := rapid.IntRange(0, 40).Draw(t, "merges")
		tok, err := bpe.Train(slices.Values(texts), 256+merges, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slow(texts, merges), learnt(tok)); diff != "" {
			t.Fatal(diff)
		}
		slices.Reverse(texts)
		again, err := bpe.Train(slices.Values(texts), 256+merges, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(learnt(tok), learnt(again)); diff != "" {
			t.Fatalf("another order of the texts: %s", diff)
		}
	})
}

func BenchmarkTrain(b *testing.B) {
	for b.Loop() {
		train(b, 400)
	}
}

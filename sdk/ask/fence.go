package ask

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/sdk/grade"
)

// Fence marks where texts that others wrote begin and end in a prompt. Its mark
// stands in none of them, so that no text can end its own part.
type Fence struct{ mark string }

// NewFence finds a mark for the texts given, always the same for the same texts.
func NewFence(texts ...string) Fence {
	for n := uint64(0); ; n++ {
		mark := strconv.FormatUint(grade.Hash(n, texts...)|1<<63, 36)
		free := true
		for _, t := range texts {
			free = free && !strings.Contains(t, mark)
		}
		if free {
			return Fence{mark}
		}
	}
}

// String is the mark.
func (f Fence) String() string { return f.mark }

// Around puts a text, one of those that the fence was made for or a part of one,
// between two lines that carry its name and the mark.
func (f Fence) Around(name, text string) string {
	return "<" + name + " " + f.mark + ">\n" + strings.TrimRight(text, "\n") + "\n</" + name + " " + f.mark + ">"
}

// Cut shortens a text to about limit bytes: beginning and end are kept, and a line
// between them says how much is left out.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit/2, len(text)-limit/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "\n[… " + strconv.Itoa(tail-head) + " bytes left out …]\n" + text[tail:]
}

package bpe

import "unicode/utf8"

// Pattern is the pre-split: no token reaches over the border between two of its
// matches. Letters never share a piece with what stands around them, so a name has
// the same tokens wherever it is written, and a digit is always a token of its own.
// A line break takes the indentation after it along, a comma one blank.
const Pattern = `\n *|[A-Za-z]+|\d|, ?|[^A-Za-z\d]`

// pieceLen is the number of bytes of the first match of Pattern in s, which is not
// empty. Every single rune matches, so nothing lies between two matches. A byte that
// is not valid UTF-8 is a piece of its own.
func pieceLen(s string) int {
	n := 1
	switch c := s[0]; {
	case c == '\n':
		for n < len(s) && s[n] == ' ' {
			n++
		}
	case letter(c):
		for n < len(s) && letter(s[n]) {
			n++
		}
	case c == ',':
		if n < len(s) && s[n] == ' ' {
			n++
		}
	case c >= utf8.RuneSelf:
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

package bpe

import "unicode/utf8"

// The byte alphabet of GPT-2: every byte is written as one printable rune, so that
// tokens can stand in JSON. Printable Latin-1 bytes stand for themselves; the other
// 68 are, in order, U+0100 and on. A blank is written Ġ, a line feed Ċ.
var (
	runeOf [256]rune
	byteOf = make(map[rune]byte, 256)
)

func init() {
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		printable := r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE
		if !printable {
			r = next
			next++
		}
		runeOf[b] = r
		byteOf[r] = byte(b)
	}
}

// visible writes bytes in the byte alphabet.
func visible(s string) string {
	out := make([]byte, 0, len(s)+8)
	for i := range len(s) {
		out = utf8.AppendRune(out, runeOf[s[i]])
	}
	return string(out)
}

// raw reads what visible wrote; ok is false if a rune is not of the alphabet.
func raw(s string) (text string, ok bool) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		b, ok := byteOf[r]
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), true
}

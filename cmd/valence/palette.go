package main

// palette holds the escape sequences of a stream; the zero palette has none.
// Colour is never the only signal: every painted word also says what it means.
type palette struct {
	bold, dim, red, green, yellow, blue, reset string
}

var colours = palette{
	bold: "\x1b[1m", dim: "\x1b[2m", red: "\x1b[31m", green: "\x1b[32m", yellow: "\x1b[33m", blue: "\x1b[34m", reset: "\x1b[0m",
}

func (p palette) in(colour, s string) string {
	if colour == "" || s == "" {
		return s
	}
	return colour + s + p.reset
}

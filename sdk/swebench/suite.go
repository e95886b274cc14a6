package swebench

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// suiteRan looks for the summary of a runner that ran at least one test. It tells a
// log without failures from one without tests where only failures are listed: a
// browser that does not start also prints a summary, of none.
func suiteRan(log string) bool {
	return after(log, "Executed ", func(_, rest string) bool { // karma
		n := positive(rest)
		return n > 0 && strings.HasPrefix(rest[n:], " of ") && digits(rest[n+4:]) > 0
	}) || after(log, "TOTAL: ", func(_, rest string) bool { // karma
		n := positive(rest)
		return n > 0 && (strings.HasPrefix(rest[n:], " SUCCESS") || strings.HasPrefix(rest[n:], " FAILED"))
	}) || after(log, " passing", func(before, _ string) bool { // mocha
		return endsPositive(before)
	}) || after(log, "Tests:", func(_, rest string) bool { // jest
		number := strings.TrimLeftFunc(rest, space)
		return len(number) < len(rest) && positive(number) > 0
	}) || after(log, "Test Suites:", func(_, rest string) bool { // jest
		counts := strings.TrimLeftFunc(rest, space)
		return len(counts) < len(rest) && total(counts)
	}) || after(log, "# tests ", func(before, rest string) bool { // TAP
		return (before == "" || strings.HasSuffix(before, "\n")) && positive(rest) > 0
	}) || after(log, " spec", func(before, rest string) bool { // jasmine
		rest, ok := strings.CutPrefix(strings.TrimPrefix(rest, "s"), ", ")
		n := digits(rest)
		return ok && n > 0 && strings.HasPrefix(rest[n:], " failure") && endsPositive(before)
	}) || after(log, "': ok", func(_, rest string) bool { // openlayers' rendering tests
		return rest == "" || rest[0] == '\n'
	})
}

// after reports whether holds says true of what stands before and after some
// occurrence of a text.
func after(log, text string, holds func(before, rest string) bool) bool {
	for from := 0; ; {
		i := strings.Index(log[from:], text)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(text)
		if holds(log[:i], log[from:]) {
			return true
		}
	}
}

// total reads "1 failed, 2 passed, 3 total", whose last count is not 0.
func total(s string) bool {
	for {
		n := digits(s)
		if n == 0 || len(s) == n || s[n] != ' ' {
			return false
		}
		if s[0] != '0' && strings.HasPrefix(s[n:], " total") {
			return true
		}
		word := strings.TrimLeftFunc(s[n+1:], alphanumeric)
		if len(word) == len(s)-n-1 || !strings.HasPrefix(word, ", ") {
			return false
		}
		s = word[2:]
	}
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// positive is the length of the number at the start of s, if it does not begin
// with a 0; else 0.
func positive(s string) int {
	if strings.HasPrefix(s, "0") {
		return 0
	}
	return digits(s)
}

// endsPositive reports whether s ends in a number that is not 0.
func endsPositive(s string) bool {
	for i := len(s); i > 0 && s[i-1] >= '0' && s[i-1] <= '9'; i-- {
		if s[i-1] != '0' {
			return true
		}
	}
	return false
}

func space(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }

func alphanumeric(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}

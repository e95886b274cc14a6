package main

import (
	"slices"
	"strings"
)

// symptoms gives the exception types that an issue names as what happens now, in
// the order of the text. One that it asks for ("should raise ValueError", "instead
// of KeyError") is not a symptom.
func symptoms(issue string) []string {
	var out []string
	words := strings.Fields(issue)
	for i, w := range words {
		for _, name := range exceptionNames(w) {
			if !wished(words[:i]) && !wishedAfter(words[i:]) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// exceptionNames finds the exception types in a word that may carry punctuation,
// quotes and a module's name.
func exceptionNames(word string) []string {
	var out []string
	for name := range strings.FieldsFuncSeq(word, func(c rune) bool { return !isWordRune(c) }) {
		if isException(name) {
			out = append(out, name)
		}
	}
	return out
}

// isException tells Python's built-in exceptions and whatever is named like one.
func isException(name string) bool {
	switch name {
	case "StopIteration", "StopAsyncIteration", "KeyboardInterrupt", "SystemExit", "GeneratorExit":
		return true
	case "Error", "Exception", "Warning":
		return false // too general to be a symptom
	}
	if name == "" || name[0] < 'A' || name[0] > 'Z' {
		return false
	}
	return strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Warning")
}

// wished says whether the words before an exception's name, in the same sentence
// and at most six of them, ask for it.
func wished(before []string) bool {
	from := max(0, len(before)-6)
	for i := len(before) - 1; i >= from; i-- {
		if strings.ContainsAny(before[i][len(before[i])-1:], ".;!?,") {
			from = i + 1
			break
		}
	}
	wish := false
	for _, w := range before[from:] {
		switch strings.ToLower(strings.Trim(w, "\"'`(),:*_")) {
		case "should", "must", "expected", "expect", "expects", "ought", "want", "wanted", "supposed", "rather", "of", "need", "needs":
			wish = true
		case "not", "no", "never", "gets", "got", "get", "but", "shouldn't", "mustn't", "unexpected", "throws", "instead":
			wish = false
		}
	}
	return wish
}

// wishedAfter says whether the words from an exception's name on ask for it, as in
// "ValueError is expected" or "a KeyError should be raised".
func wishedAfter(words []string) bool {
	for i, w := range words[:min(4, len(words))] {
		if i > 0 {
			switch strings.ToLower(strings.Trim(w, "\"'`(),:;.!?*_")) {
			case "expected", "should", "must":
				return i+1 == len(words) || !strings.EqualFold(words[i+1], "not")
			case "is", "are", "was", "to", "would":
			default:
				return false
			}
		}
		if strings.ContainsAny(w[len(w)-1:], ".;!?,:") {
			return false
		}
	}
	return false
}

// mentions says whether a log has name as a whole word.
func mentions(log, name string) bool {
	for at := 0; ; {
		i := strings.Index(log[at:], name)
		if i < 0 {
			return false
		}
		i += at
		end := i + len(name)
		if (i == 0 || !isWordByte(log[i-1])) && (end == len(log) || !isWordByte(log[end])) {
			return true
		}
		at = end
	}
}

func isWordByte(c byte) bool { return c < 0x80 && isWordRune(rune(c)) }

func isWordRune(c rune) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func list(names []string) string { return strings.Join(names, " and ") }

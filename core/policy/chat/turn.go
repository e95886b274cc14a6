package chat

import (
	"fmt"
	"strings"

	"github.com/valence-rl/valence/core/policy"
)

// part is a marker or a text between markers of a turn.
type part struct{ marker, text string }

// read is the grammar of a turn, without its end.
func read(parts []part) (policy.Turn, error) {
	if len(parts) == 0 {
		return policy.Turn{}, nil
	}
	switch parts[0].marker {
	case Bash:
		command, err := plain("the command of bash", parts[1:])
		if err != nil {
			return policy.Turn{}, err
		}
		return call(policy.ToolBash, map[string]string{"command": command}), nil
	case StrReplace:
		return readStrReplace(parts[1:])
	}
	text, err := plain("the message", parts)
	return policy.Turn{Text: text}, err
}

func readStrReplace(parts []part) (policy.Turn, error) {
	var fields [][]part
	from := 0
	for i, p := range parts {
		if p.marker == Arg {
			fields = append(fields, parts[from:i])
			from = i + 1
		}
	}
	fields = append(fields, parts[from:])
	command, err := plain("the command of str_replace", fields[0])
	if err != nil {
		return policy.Turn{}, err
	}
	more, ok := policy.StrReplaceArguments[command]
	if !ok {
		return policy.Turn{}, fmt.Errorf("%s", unknownCommand(command))
	}
	names := append([]string{"path"}, more...)
	if n := len(fields) - 1; n != len(names) {
		return policy.Turn{}, fmt.Errorf("%s has %d arguments after it; want %d: %s", command, n, len(names), strings.Join(names, ", "))
	}
	args := map[string]string{"command": command}
	for i, name := range names {
		if args[name], err = plain("the "+name+" of "+command, fields[i+1]); err != nil {
			return policy.Turn{}, err
		}
	}
	return call(policy.ToolStrReplace, args), nil
}

// plain is the text of parts, which must hold no marker; where says what is being read.
func plain(where string, parts []part) (string, error) {
	text := ""
	for _, p := range parts {
		if p.marker != "" {
			return "", fmt.Errorf("%s in %s", p.marker, where)
		}
		text += p.text
	}
	return text, nil
}

// ParseText reads a turn that a server gives as text, with the markers written out. The
// end marker may be there or not: servers cut it off. Unlike tokens, text can spell a
// marker that was never sampled; such a turn is read as the marker says. A malformed
// turn has the text in Text.
func ParseText(text string) policy.Turn {
	t, err := parseText(text)
	if err != nil {
		return policy.Turn{Text: text, Malformed: err.Error()}
	}
	return t
}

func parseText(text string) (policy.Turn, error) {
	text, rest, ended := strings.Cut(text, End)
	if ended && rest != "" {
		return policy.Turn{}, fmt.Errorf("%d bytes after %s", len(rest), End)
	}
	var parts []part
	for text != "" {
		at, marker := firstMarker(text)
		if at > 0 {
			parts = append(parts, part{text: text[:at]})
		}
		if marker != "" {
			parts = append(parts, part{marker: marker})
		}
		text = text[at+len(marker):]
	}
	return read(parts)
}

// firstMarker finds the first marker in text; without one it is "" at the end.
func firstMarker(text string) (at int, marker string) {
	at = len(text)
	for _, name := range Specials() {
		if i := strings.Index(text[:at], name); i >= 0 {
			at, marker = i, name
		}
	}
	return at, marker
}

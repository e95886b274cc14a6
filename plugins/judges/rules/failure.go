package main

import (
	"path"
	"strings"
)

// failure is the exception that ended a Python program, as its traceback tells it.
type failure struct {
	name    string // exception type without its module; "" if the log has no traceback
	message string
	file    string // of the last frame, or of the syntax error
}

// lastError reads the last traceback of a log.
func lastError(log string) failure {
	var f failure
	frame := ""
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimRight(line, "\r")
		trimmed := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(trimmed, `File "`); ok && trimmed != line {
			if file, _, ok := strings.Cut(rest, `"`); ok {
				frame = file
			}
			continue
		}
		if line == "" || line != trimmed || frame == "" {
			continue
		}
		head, message, _ := strings.Cut(line, ":")
		name := head[strings.LastIndexByte(head, '.')+1:]
		if strings.ContainsAny(head, " \t") || !isException(name) {
			continue
		}
		f = failure{name: name, message: strings.TrimSpace(message), file: frame}
	}
	return f
}

// scriptsOwn says in words why a failure is the script's and not the code's; "" if
// it is not. named are the exceptions that the issue speaks of.
func (f failure) scriptsOwn(named []string, issue string) string {
	for _, n := range named {
		if n == f.name {
			return ""
		}
	}
	// A missing name that the issue mentions is what the issue is about.
	if subject := quoted(f.message); subject != "" && mentions(issue, subject) && f.name != "SyntaxError" {
		return ""
	}
	own := isScript(f.file)
	switch f.name {
	case "SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError":
		if own {
			return f.describe() + " in the script itself"
		}
	case "ModuleNotFoundError":
		return f.describe()
	case "ImportError":
		if own {
			return f.describe() + " in the script itself"
		}
	}
	return ""
}

// describe gives the failure in a few words.
func (f failure) describe() string {
	if f.name == "" {
		return "no exception"
	}
	if f.message == "" {
		return f.name
	}
	m := f.message
	if len(m) > 120 {
		m = strings.ToValidUTF8(m[:120], "") + "…"
	}
	return f.name + ": " + m
}

// isScript says whether a frame's file is the agent's script, in any language's
// extension.
func isScript(file string) bool {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base)) == "reproduce"
}

// quoted gives the first text in single quotes of a message: the name that a
// NameError or an ImportError complains about.
func quoted(message string) string {
	parts := strings.Split(message, "'")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

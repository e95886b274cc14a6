package grade

import (
	"slices"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

// Place is where a patch changes code: a file, and the function if it is known.
type Place struct{ Path, Name string }

func (p Place) String() string {
	if p.Name == "" {
		return p.Path
	}
	return p.Path + " " + p.Name
}

// Places gives the places that r's gold patch changes, tests and files that it
// makes left out, in the patch's order. A function's name comes from the source
// where the record lists it and the language is Python, else from r.Targets, else
// from the section that a hunk's header names; methods are Class.method.
func Places(r *sdk.Record) ([]Place, error) {
	diffs, err := ParseDiff(r.Patch)
	if err != nil {
		return nil, err
	}
	tree, treeErr := ApplyDiff(r.Workspace.Files, r.Workspace.Patches...)
	var out []Place
	add := func(p Place) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for i := range diffs {
		d := &diffs[i]
		if d.Old == "" || IsTest(d.Old) {
			continue
		}
		at := -1
		if treeErr == nil {
			at = Index(tree, d.Old)
		}
		switch {
		case at >= 0 && strings.EqualFold(r.Language, "python"):
			for _, name := range pythonFunctions(string(tree[at].Data), d) {
				add(Place{d.Old, name})
			}
		case slices.ContainsFunc(r.Targets, func(t sdk.Target) bool { return t.Path == d.Old }):
			for _, t := range r.Targets {
				if t.Path == d.Old {
					add(Place{d.Old, t.Name})
				}
			}
		default:
			for _, h := range d.Hunks {
				name, _ := pythonDefinition(h.Section)
				add(Place{d.Old, name})
			}
		}
		if len(d.Hunks) == 0 {
			add(Place{Path: d.Old})
		}
	}
	return out, nil
}

// pythonFunctions names the function around each line that d changes; "" for one
// outside every function.
func pythonFunctions(source string, d *FileDiff) []string {
	lines := strings.Split(source, "\n")
	var names []string
	for _, h := range d.Hunks {
		at := h.OldStart - 1 // index of the next old line
		if h.OldLines == 0 {
			at = h.OldStart
		}
		for _, l := range h.Lines {
			text := strings.TrimRight(l[1:], "\r\n")
			if l[0] != ' ' && strings.TrimSpace(text) != "" {
				if name := enclosing(lines, min(at, len(lines)), text, l[0] == '-'); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			if l[0] != '+' {
				at++
			}
		}
	}
	return names
}

// enclosing names the definition around the changed line text, which stands before
// (or, if it is removed, at) lines[at]. Definitions are told by their indentation.
func enclosing(lines []string, at int, text string, there bool) string {
	name, depth := "", indent(text)
	function := false
	defines := func(name string) bool {
		return slices.ContainsFunc(lines, func(l string) bool {
			n, ok := pythonDefinition(l)
			return ok && n == name && indent(l) == depth
		})
	}
	if n, ok := pythonDefinition(text); ok && (there || defines(n)) {
		name, function = n, true
	}
	for i := at - 1; i >= 0 && depth > 0; i-- {
		if strings.TrimSpace(lines[i]) == "" || indent(lines[i]) >= depth {
			continue
		}
		if s := strings.TrimSpace(lines[i]); s[0] == '#' || s[0] == ')' {
			continue // a comment or the end of a signature says nothing of the block
		}
		depth = indent(lines[i])
		if n, ok := pythonDefinition(lines[i]); ok {
			name, function = join(n, name), true
		} else if n, ok := pythonClass(lines[i]); ok && function {
			name = join(n, name)
		}
	}
	return name
}

func join(outer, inner string) string {
	if inner == "" {
		return outer
	}
	return outer + "." + inner
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// pythonDefinition gives the name that a line defines as a function.
func pythonDefinition(line string) (string, bool) {
	s := strings.TrimPrefix(strings.TrimSpace(line), "async ")
	return named(s, "def ")
}

func pythonClass(line string) (string, bool) { return named(strings.TrimSpace(line), "class ") }

func named(s, keyword string) (string, bool) {
	s, ok := strings.CutPrefix(s, keyword)
	if !ok {
		return "", false
	}
	end := strings.IndexAny(s, "([: ")
	if end <= 0 {
		return "", false
	}
	return s[:end], true
}

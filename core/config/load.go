package config

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"sort"

	"github.com/valence-rl/valence/core/diag"
)

// Load reads and checks a configuration file. sets are the values of --set
// ("section.key=value"), which win over the file, later ones over earlier ones.
//
// Everything that is wrong is reported at once: the error is a diag.List of
// KindConfig in the order of the file, problems of the flags last.
func Load(path string, sets []string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		d := &diag.Diagnostic{Kind: diag.KindConfig, Code: "C001", Summary: "cannot read the configuration", Source: diag.Source{File: path}, Hint: cause(err)}
		return nil, diag.List{d}
	}
	return Parse(path, data, sets)
}

// cause is an error of the file system without the path, which is shown already.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// Parse is [Load] for bytes at hand; name stands for the file in messages.
func Parse(name string, data []byte, sets []string) (*Config, error) {
	if len(data) > maxSize {
		return nil, diag.List{{Kind: diag.KindConfig, Code: "C001", Summary: "the configuration is larger than 4 MiB", Source: diag.Source{File: name}}}
	}
	d := &decoder{file: name, nodes: map[string]*node{}, origins: map[string]diag.Source{}}
	root := read(&document{name: name, data: data}, &d.l)
	unreadable := len(d.l) > 0
	for _, s := range sets {
		override(root, s, &d.l)
	}
	c := &Config{File: name, origins: d.origins}
	d.table("", "", root, reflect.ValueOf(c).Elem())
	if unreadable {
		// What a line that cannot be read would have set is not missing.
		d.l = without(d.l, "C010")
	} else {
		d.check(c)
	}
	if len(d.l) > 0 {
		sort.SliceStable(d.l, func(i, j int) bool { return before(d.l[i].Source, d.l[j].Source) })
		if len(d.l) > maxProblems {
			d.l = d.l[:maxProblems]
		}
		return nil, d.l
	}
	return c, nil
}

func without(l diag.List, code string) diag.List {
	out := l[:0]
	for _, d := range l {
		if d.Code != code {
			out = append(out, d)
		}
	}
	return out
}

// before orders by place; what has none (a flag, a missing section) comes last.
func before(a, b diag.Source) bool {
	if (a.Line == 0) != (b.Line == 0) {
		return b.Line == 0
	}
	if a.Line != b.Line {
		return a.Line < b.Line
	}
	return a.Column < b.Column
}

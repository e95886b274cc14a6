package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
)

// Values gives every key of a configuration ("grpo.learning_rate",
// "source.0.count", "skills.repro.judge") with its value as text, defaults
// included. An optional key that is not set is absent.
func Values(c *Config) map[string]string {
	var tree map[string]any
	out := map[string]string{}
	if err := toml.Unmarshal(Resolved(c), &tree); err == nil { // what Resolved writes is TOML
		flatten(out, "", tree)
	}
	return out
}

func flatten(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(out, join(path, k), x)
		}
	case []any:
		if len(v) > 0 {
			if _, tables := v[0].(map[string]any); tables {
				for i, x := range v {
					flatten(out, join(path, strconv.Itoa(i)), x)
				}
				return
			}
		}
		out[path] = fmt.Sprint(v)
	default:
		out[path] = fmt.Sprint(v)
	}
}

// Changed lists the keys whose values differ between two configurations, sorted.
func Changed(a, b *Config) []string {
	x, y := Values(a), Values(b)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(merge(x, y))) {
		v, there := x[k]
		w, here := y[k]
		if there != here || v != w {
			out = append(out, k)
		}
	}
	return out
}

func merge(x, y map[string]string) map[string]string {
	z := maps.Clone(x)
	maps.Copy(z, y)
	return z
}

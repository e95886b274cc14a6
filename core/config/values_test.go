package config

import (
	"slices"
	"testing"
)

func TestChanged(t *testing.T) {
	parse := func(sets ...string) *Config {
		t.Helper()
		c, err := Parse("run.toml", []byte(least), sets)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, nil},
		{[]string{"run.steps=100"}, nil}, // the default
		{[]string{"run.steps=99", "source.0.count=3"}, []string{"run.steps", "source.0.count"}},
		{[]string{"skills.a.judge=.", "skills.a.config.x=1", `skills.a.grants=["log"]`}, []string{"skills.a.config.x", "skills.a.grants", "skills.a.judge"}},
		{[]string{"skills.b.plugin=."}, []string{"skills.b.plugin", "skills.b.weight"}},
	} {
		for _, got := range [][]string{Changed(parse(), parse(c.sets...)), Changed(parse(c.sets...), parse())} {
			if !slices.Equal(got, c.want) {
				t.Errorf("%v: %v, want %v", c.sets, got, c.want)
			}
		}
	}
	if v := Values(parse("skills.a.config.x=a b"))["skills.a.config.x"]; v != "a b" {
		t.Errorf("a setting reads %q", v)
	}
}

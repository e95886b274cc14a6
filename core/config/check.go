package config

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"
)

// check looks at what no single key can tell.
func (d *decoder) check(c *Config) {
	if n := c.Run.Name; n != "" && (!validName(strings.ReplaceAll(n, ".", "-")) || strings.Trim(n, ".") == "") {
		d.report(d.valueOf("run.name"), "C012", fmt.Sprintf("run.name %q cannot name a folder", n), "letters, digits, dot, dash, underscore; at most 64")
	}
	if p := c.Policy; p.Path == "" && (p.Kind == "engine" || p.Kind == "random" || p.Kind == "replay") {
		d.report(d.keyOf("policy"), "C010", `[policy] needs the key "path"`, "add path = …", fmt.Sprintf("kind = %q reads what is there", p.Kind))
	}
	d.server(c)
	if p := c.Policy; p.Kind == "engine" && p.MaxTurnTokens > p.MaxContext {
		d.report(d.valueOf("policy.max_turn_tokens"), "C012", "policy.max_turn_tokens is larger than policy.max_context", fmt.Sprintf("want at most %d", p.MaxContext))
	}
	if g := c.GRPO; g.RewardLow != nil && g.RewardHigh != nil && *g.RewardLow >= *g.RewardHigh {
		d.report(d.valueOf("grpo.reward_high"), "C012", "grpo.reward_high is not above grpo.reward_low", fmt.Sprintf("want more than %g", *g.RewardLow))
	}
	if s := c.SFT; s.KVHeads > 0 && s.Heads%s.KVHeads != 0 {
		d.report(d.valueOf("sft.kv_heads"), "C012", "sft.kv_heads does not divide sft.heads", fmt.Sprintf("want a divisor of %d", s.Heads))
	}
	if c.SFT.HeadDim%2 != 0 {
		d.report(d.valueOf("sft.head_dim"), "C012", "sft.head_dim is odd", "want an even number")
	}
	if m := c.Model; d.nodes["model"] != nil && (m.BaseURL == "" || m.Name == "") {
		d.report(d.keyOf("model"), "C010", "[model] needs both base_url and name", "add the missing key or remove the section")
	}
	d.kube(c)
	d.skills(c)
	d.sources(c)
	d.files(c)
}

func (d *decoder) keyOf(path string) span {
	if n := d.nodes[path]; n != nil {
		return n.key
	}
	return span{}
}

// valueOf is the place of a value, or of the section that lacks it.
func (d *decoder) valueOf(path string) span {
	if n := d.nodes[path]; n != nil {
		return n.val
	}
	for p := parentKey(path); p != ""; p = parentKey(p) {
		if n := d.nodes[p]; n != nil {
			return n.key
		}
	}
	return span{}
}

// server looks at [server], which the policy "openai" needs.
func (d *decoder) server(c *Config) {
	s := c.Server
	if d.nodes["server"] == nil && c.Policy.Kind != "openai" {
		return
	}
	if len(s.BaseURLs) == 0 || s.Model == "" {
		at := d.keyOf("server")
		if d.nodes["server"] == nil {
			at = d.valueOf("policy.kind")
		}
		d.report(at, "C010", "[server] needs both base_urls and model", "add the missing key", `base_urls = ["http://127.0.0.1:8000/v1"]`)
	}
	if n := d.nodes["server.base_urls"]; n != nil {
		for _, item := range n.items {
			if u, err := url.Parse(item.text); item.kind == kindString && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "") {
				d.report(item.val, "C012", fmt.Sprintf("%q is no address of a server", item.text), `want e.g. "http://127.0.0.1:8000/v1"; a key belongs into the variable that api_key_env names`)
			}
		}
	}
	if s.Extra != "" {
		if _, err := s.Fields(); err != nil {
			d.report(d.valueOf("server.extra"), "C012", "server.extra cannot be added to requests: "+err.Error(), `want e.g. '{"top_k": 20}'`)
		}
	}
}

// Fields reads Extra; nil without any.
func (s Server) Fields() (map[string]any, error) {
	if s.Extra == "" {
		return nil, nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(s.Extra), &m); err != nil {
		return nil, err
	}
	for _, k := range []string{"messages", "model", "n", "stream", "tools"} {
		if _, ok := m[k]; ok {
			return nil, fmt.Errorf("the field %q is not free", k)
		}
	}
	return m, nil
}

func (d *decoder) skills(c *Config) {
	if len(c.Skills)+len(c.Suites) == 0 {
		if d.nodes["skills"] == nil && d.nodes["suites"] == nil && !given(c) {
			d.report(span{}, "C010", "no skill and no suite is configured", `add [skills.<name>] with plugin = "…" and weight = …`)
		}
		return
	}
	var sum float64
	for _, s := range c.Skills {
		sum += s.Weight
		for _, u := range c.Suites {
			if u.Name == s.Name {
				d.report(d.keyOf("suites."+u.Name), "C025", fmt.Sprintf("%q is a skill and a suite", u.Name), "a skill is measured anyway; rename or remove one")
			}
		}
	}
	switch {
	case len(c.Skills) > 0 && sum == 0:
		d.report(d.valueOf("skills."+c.Skills[0].Name+".weight"), "C020", "the weights of all skills sum to 0", "give one skill a weight above 0", "a plugin that is only measured belongs under [suites.<name>]")
	case math.IsInf(sum, 1):
		d.report(d.valueOf("skills."+c.Skills[0].Name+".weight"), "C020", "the weights of all skills sum to infinity", "give smaller weights")
	}
}

// given says that there is a policy to be made from trajectories that are there, which
// needs neither skills nor records.
func given(c *Config) bool { return len(c.SFT.Trajectories) > 0 }

func (d *decoder) sources(c *Config) {
	if len(c.Sources) == 0 {
		if d.nodes["source"] == nil && !given(c) {
			d.report(span{}, "C010", "no [[source]] is configured", "add one", `[[source]]`, `kind = "pocket"`)
		}
		return
	}
	var names []string
	for _, s := range c.Skills {
		names = append(names, s.Name)
	}
	for _, s := range c.Suites {
		names = append(names, s.Name)
	}
	splits, training := []string{}, false
	for i := range c.Sources {
		s := &c.Sources[i]
		p := fmt.Sprintf("source.%d", i)
		d.kind(c, i, p)
		switch {
		case s.Use == "" && s.Split == "train":
			s.Use = "train"
		case s.Use == "":
			s.Use = "eval"
		case s.Use == "train" && s.Split != "train":
			d.report(d.valueOf(p+".use"), "C027", fmt.Sprintf("split %q is held out and cannot be trained on", s.Split), `want use = "eval"`)
		}
		training = training || s.Use == "train"
		if s.Use == "eval" && !contains(splits, s.Split) {
			splits = append(splits, s.Split)
		}
		if n := d.nodes[p+".skills"]; n != nil && len(names) > 0 {
			for _, item := range n.items {
				if item.kind == kindString && !contains(names, item.text) {
					hint := "it has no section"
					if near := nearest(item.text, names); near != "" {
						hint = fmt.Sprintf("did you mean %q?", near)
					}
					d.report(item.val, "C024", fmt.Sprintf("no skill or suite is called %q", item.text), hint, "configured: "+strings.Join(names, ", "))
				}
			}
		}
	}
	for _, s := range c.Skills {
		if !training || s.Weight == 0 {
			continue
		}
		served := false
		for _, src := range c.Sources {
			served = served || src.Use == "train" && src.Serves(s.Name)
		}
		if !served {
			d.report(d.keyOf("skills."+s.Name), "C028", fmt.Sprintf("no training source serves the skill %q", s.Name), fmt.Sprintf("add %q to the skills of a [[source]]", s.Name))
		}
	}
	if n := d.nodes["eval.splits"]; n != nil {
		for _, item := range n.items {
			if item.kind == kindString && !contains(splits, item.text) {
				d.report(item.val, "C024", fmt.Sprintf("no eval source has the split %q", item.text), "", "eval sources have: "+strings.Join(splits, ", "))
			}
		}
	}
}

// kind checks the keys that a source has by its kind.
func (d *decoder) kind(c *Config, i int, p string) {
	s := &c.Sources[i]
	if s.Kind == "pocket" {
		if s.Path != "" {
			d.report(d.keyOf(p+".path"), "C026", `a source of kind "pocket" has no path`, "remove it: its records are generated")
		}
		if s.Holdout != 0 {
			d.report(d.keyOf(p+".holdout"), "C026", `a source of kind "pocket" has no holdout`, "remove it: its splits share nothing")
		}
		if s.Count == 0 {
			d.report(d.valueOf(p+".count"), "C026", `a source of kind "pocket" generates at least one record`, "want a count above 0")
		}
		return
	}
	if d.nodes[p+".count"] == nil {
		s.Count = 0
	}
	switch {
	case s.Kind != "records":
	case s.Path == "":
		d.report(d.keyOf(p), "C026", `a source of kind "records" has no path`, "name the file: path = \"records.jsonl\"")
	case s.Split == "unseen":
		d.report(d.valueOf(p+".split"), "C026", `a source of kind "records" has no split "unseen"`, `want "train" or "eval"`)
	case d.nodes[p+".shape"] != nil && s.Shape != "module":
		d.report(d.keyOf(p+".shape"), "C026", `a source of kind "records" has no shape`, "remove it")
	}
	for j := range i {
		o := &c.Sources[j]
		if o.Kind == s.Kind && o.Path == s.Path && s.Path != "" && (o.Holdout != s.Holdout || o.SeedOr(c.Run.Seed) != s.SeedOr(c.Run.Seed)) {
			d.report(d.keyOf(p), "C029", fmt.Sprintf("two sources of %q do not hold out the same part", s.Path), "give both the same holdout and the same seed")
		}
	}
}

// files looks whether what the file names is there: plugins, judges, templates.
func (d *decoder) files(c *Config) {
	d.template("rollout.prompt", c.Rollout.Prompt)
	for i, s := range c.Sources {
		d.data(fmt.Sprintf("source.%d.path", i), s.Path)
	}
	for i, f := range c.Decontaminate.Files {
		d.data(fmt.Sprintf("decontaminate.files.%d", i), f)
	}
	for _, s := range c.Skills {
		p := "skills." + s.Name
		d.plugin(p+".plugin", s.Plugin)
		d.plugin(p+".judge", s.Judge)
		d.template(p+".prompt", s.Prompt)
	}
	for _, s := range c.Suites {
		p := "suites." + s.Name
		d.plugin(p+".plugin", s.Plugin)
		d.plugin(p+".judge", s.Judge)
		d.template(p+".prompt", s.Prompt)
	}
}

func (d *decoder) plugin(path, ref string) {
	switch {
	case ref == "":
		if n := d.nodes[path]; n != nil && n.kind == kindString {
			d.report(n.val, "C023", path+" is empty", "name a folder, a .wasm file or name@version")
		}
	case strings.Contains(ref, "@"), strings.HasPrefix(ref, "oci://"):
	default:
		if _, err := os.Stat(ref); err != nil {
			d.report(d.valueOf(path), "C023", fmt.Sprintf("there is no plugin at %q", ref), cause(err), "want a folder with plugin.toml, a .wasm file, name@version, or oci://host/repository:tag; paths start at the current directory")
		}
	}
}

// data looks whether data is there.
func (d *decoder) data(path, name string) {
	if name == "" {
		return
	}
	if _, err := os.Stat(name); err != nil {
		d.report(d.valueOf(path), "C023", fmt.Sprintf("there is no data at %q", name), cause(err), "valence data import makes a records file; paths start at the current directory")
	}
}

func (d *decoder) template(path, ref string) {
	if ref == "" || ref == "full" || ref == "brief" {
		return
	}
	if _, err := os.Stat(ref); err != nil {
		d.report(d.valueOf(path), "C023", fmt.Sprintf("there is no prompt template at %q", ref), cause(err), `want "full", "brief", or a file; paths start at the current directory`)
	}
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/grpo"
)

// least is the smallest configuration that is accepted; its plugin is this folder.
const least = `
[run]
name = "x"
[policy]
path = "p"
[[source]]
kind = "pocket"
[skills.a]
plugin = "."
weight = 0.25
`

func TestDefaults(t *testing.T) {
	c, err := Parse("run.toml", []byte(least), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rollout.Timeout != 5*time.Minute || c.Sandbox.Memory != 512<<20 || c.GRPO.Preset != "grpo++" || c.GRPO.GroupSize != 8 {
		t.Errorf("defaults are not filled in: %+v", c)
	}
	if c.GRPO.ClipHigh != nil || c.GRPO.Filter != nil || c.Skills[0].Grants != nil || c.Sources[0].Seed != nil {
		t.Errorf("what is unset must stay unset: %+v", c)
	}
	if c.Sources[0].Use != "train" || c.Sources[0].SeedOr(9) != 9 || !c.Sources[0].Serves("a") {
		t.Errorf("source: %+v", c.Sources[0])
	}
	if got := c.Where("skills.a.weight"); got.Line != 10 || got.Text != "weight = 0.25" {
		t.Errorf("Where: %+v", got)
	}
	if got := c.Where("skills.a.judge"); got.Line != 8 {
		t.Errorf("Where of an unset key is its section: %+v", got)
	}
}

// Each configuration is the least one, changed, and what must be said of it.
func TestProblems(t *testing.T) {
	tests := []struct {
		name      string
		add, sets string
		want      []string
	}{
		{"unknown key", "[skills.b]\nplugin=\".\"\nwieght=1", "", []string{`error[C014]: unknown key "wieght"`, "run.toml:13:1", `did you mean "weight"?`, "[skills.b] accepts: plugin, weight, transport, judge"}},
		{"unknown section", "[polcy]\nx=1", "", []string{`C014]: unknown section "polcy"`, `did you mean "policy"?`}},
		{"key of another section", "[async]\ngroup_size=3", "", []string{"it belongs to [grpo]"}},
		{"wrong type", "[async]\nretries=\"2\"", "", []string{"C011]: async.retries is a string", "want an integer", "run.toml:12:9"}},
		{"section as value", "", "run.name.x=3", []string{"has no keys"}},
		{"float for integer", "[async]\nretries=2.0", "", []string{"C011]: async.retries is a number"}},
		{"string list", "[eval]\nsplits=\"eval\"", "", []string{`want a list: ["eval"]`}},
		{"range", "[grpo]\ngroup_size=1", "", []string{"C012]: grpo.group_size is out of range", "want 2 to 1024"}},
		{"above", "[grpo]\nlearning_rate=0", "", []string{"want more than 0, at most 1"}},
		{"integer too large", "[async]\nretries=99999999999999999999", "", []string{"C012]: async.retries is out of range"}},
		{"infinite", "[grpo]\nkl=inf", "", []string{"C012]: grpo.kl is infinite"}},
		{"not a number", "[grpo]\nclip_high=nan", "", []string{"C012]: grpo.clip_high is no finite number"}},
		{"enum", "[grpo]\nlength=\"tokens\"", "", []string{`C013]: grpo.length: unknown value "tokens"`, `did you mean "token"?`, "length accepts: sequence, constant, token"}},
		{"enum in a list", "[grpo]\nfilter=[\"timeout\", \"max_stps\"]", "", []string{`did you mean "max_steps"?`, "run.toml:12:20"}},
		{"twice in a list", "[grpo]\nfilter=[\"timeout\", \"timeout\"]", "", []string{`C003]: grpo.filter names "timeout" twice`}},
		{"absent engine", "", "policy.engine=tinker", []string{`C022]: policy.engine: "tinker" is not offered by this build`, "this build has: gorgonia"}},
		{"absent source", "[[source]]\nkind=\"swebench\"", "", []string{`C022]: source.1.kind: "swebench" is not offered`}},
		{"cluster without an image", "[sandbox]\ndriver=\"kube\"\n[sandbox.kube]\ntools=\"t\"", "", []string{`C010]: driver "kube" needs the key "image" of [sandbox]`, "run.toml:12:8"}},
		{"cluster without a section", "", "sandbox.driver=kube", []string{`needs the key "image"`, `needs the key "tools"`}},
		{"key of the cluster elsewhere", "[sandbox]\nruntime_class=\"kata\"", "", []string{"it belongs to [sandbox.kube]"}},
		{"unknown key of the cluster", "[sandbox.kube]\ntols=\"x\"", "", []string{`C014]: unknown key "tols"`, `did you mean "tools"?`, "[sandbox.kube] accepts: tools"}},
		{"section of the cluster as a value", "[sandbox]\nkube=1", "", []string{"write [sandbox.kube]"}},
		{"namespace", "", "sandbox.kube.namespace=My.Own", []string{`C012]: sandbox.kube.namespace "My.Own" is no name of a namespace`}},
		{"runtime class", "", "sandbox.kube.runtime_class=g Visor", []string{`C012]: sandbox.kube.runtime_class "g Visor" is no name in a cluster`}},
		{"pull secret", "[sandbox.kube]\npull_secrets=[\"a\", \"B_\"]", "", []string{`C012]: sandbox.kube.pull_secrets: "B_" is no name in a cluster`, "run.toml:12:20"}},
		{"label of nodes", "[sandbox.kube.node_selector]\n\"a/b/c\"=\"x\"", "", []string{`C012]: "a/b/c" = "x" is no label of a node`, "run.toml:12:1"}},
		{"reach", "[sandbox.kube]\nreach=[\"10.0.0.1:80\"]", "", []string{`C012]: sandbox.kube.reach: "10.0.0.1:80" is no address`, "want tcp/HOST:PORT"}},
		{"tools with a blank", "[sandbox.kube]\ntools=\"a b\"", "", []string{`C012]: sandbox.kube.tools "a b" is no image`}},
		{"image of this machine in a cluster", "[sandbox]\ndriver=\"kube\"\nimage=\"tar:x.tar\"\n[sandbox.kube]\ntools=\"t\"", "", []string{`C012]: sandbox.image "tar:x.tar" is no image of a registry`}},
		{"size", "[sandbox]\nmemory=\"512Mb\"", "", []string{"C015]: sandbox.memory"}},
		{"duration", "[rollout]\ntimeout=\"5 minutes\"", "", []string{`C015]: rollout.timeout: "5 minutes" is no duration`}},
		{"bare duration", "[rollout]\ntimeout=5m", "", []string{"C002]", `durations and sizes are quoted: "5m"`}},
		{"bare text", "[rollout]\nprompt=brief", "", []string{"C002]", `text is quoted: "brief"`}},
		{"duplicate key", "judge=\".\"\njudge=\".\"", "", []string{`C003]: key "judge" is there twice`, "it was first met at run.toml:11"}},
		{"duplicate section", "[run]\nseed=1", "", []string{"C003]: section [run] is there twice", "it was first met at run.toml:2"}},
		{"repeated section once", "[source]\nkind=\"pocket\"", "", []string{`C004]: "source" is an array of tables already`}},
		{"missing", "[skills.b]\nweight=1", "", []string{`C010]: [skills.b] needs the key "plugin"`, "run.toml:11:9"}},
		{"missing plugin", "[skills.b]\nplugin=\"./nowhere\"", "", []string{`C023]: there is no plugin at "./nowhere"`, "no such file or directory"}},
		{"missing template", "prompt=\"nowhere.txt\"", "", []string{`C023]: there is no prompt template at "nowhere.txt"`}},
		{"weights sum to 0", "", "skills.a.weight=0", []string{"C020]: the weights of all skills sum to 0", "[suites.<name>]", "--> --set\n   | skills.a.weight=0\n"}},
		{"negative weight", "", "skills.a.weight=-1", []string{"C012]: skills.a.weight is out of range"}},
		{"skill and suite", "[suites.a]\nplugin=\".\"", "", []string{`C025]: "a" is a skill and a suite`}},
		{"path of the pocket world", "[[source]]\nkind=\"pocket\"\npath=\"x\"", "", []string{"C026]"}},
		{"records without a path", "[[source]]\nkind=\"records\"", "", []string{"C026]: a source of kind \"records\" has no path"}},
		{"records that are not there", "[[source]]\nkind=\"records\"\npath=\"none.jsonl\"", "", []string{"C023]: there is no data at \"none.jsonl\"", "valence data import"}},
		{"split of records", "[[source]]\nkind=\"records\"\npath=\".\"\nsplit=\"unseen\"", "", []string{"C026]", `want "train" or "eval"`}},
		{"holdout of the pocket world", "[[source]]\nkind=\"pocket\"\nholdout=0.5", "", []string{"C026]", "has no holdout"}},
		{"no pocket record", "[[source]]\nkind=\"pocket\"\ncount=0", "", []string{"C026]", "at least one record"}},
		{"two holdouts of one file", "[[source]]\nkind=\"records\"\npath=\".\"\nholdout=0.1\n[[source]]\nkind=\"records\"\npath=\".\"\nsplit=\"eval\"", "", []string{"C029]: two sources of \".\" do not hold out the same part"}},
		{"a suite that is none", "[decontaminate]\nsuites=[\"swebenchh\"]", "", []string{"did you mean \"swebench\"?"}},
		{"training on held-out records", "[[source]]\nkind=\"pocket\"\nsplit=\"eval\"\nuse=\"train\"", "", []string{"C027]", `want use = "eval"`}},
		{"unknown skill of a source", "[[source]]\nkind=\"pocket\"\nskills=[\"aa\"]", "", []string{`C024]: no skill or suite is called "aa"`, `did you mean "a"?`}},
		{"unserved skill", "[skills.b]\nplugin=\".\"", "source.0.skills=[\"a\"]", []string{`C028]: no training source serves the skill "b"`}},
		{"unknown split", "[eval]\nsplits=[\"eval\"]", "", []string{`C024]: no eval source has the split "eval"`}},
		{"rewards", "[grpo]\nreward_low=1\nreward_high=1", "", []string{"grpo.reward_high is not above grpo.reward_low"}},
		{"heads", "[sft]\nkv_heads=3", "", []string{"sft.kv_heads does not divide sft.heads"}},
		{"half a model", "[model]\nname=\"m\"", "", []string{"[model] needs both base_url and name"}},
		{"no model", "[model]\ntimeout=\"1m\"", "", []string{"[model] needs both base_url and name"}},
		{"no place for a question", "", "model.concurrency=0", []string{"C012]: model.concurrency is out of range"}},
		{"half a server", "[server]\nmodel=\"m\"", "", []string{"C010]: [server] needs both base_urls and model", "run.toml:11:2"}},
		{"policy without a server", "", "policy.kind=openai", []string{"C010]: [server] needs both base_urls and model"}},
		{"no address of a server", "[server]\nmodel=\"m\"\nbase_urls=[\"localhost:8000\"]", "", []string{`C012]: "localhost:8000" is no address of a server`, "run.toml:13:12"}},
		{"a key in an address", "[server]\nmodel=\"m\"\nbase_urls=[\"https://me:secret@host/v1\"]", "", []string{"is no address of a server", "a key belongs into the variable that api_key_env names"}},
		{"fields of a server", "[server]\nmodel=\"m\"\nbase_urls=[\"http://a/v1\"]\nextra='[1]'", "", []string{"C012]: server.extra cannot be added to requests", "run.toml:14:7"}},
		{"a field that is not free", "[server]\nmodel=\"m\"\nbase_urls=[\"http://a/v1\"]\nextra='{\"stream\": true}'", "", []string{`server.extra cannot be added to requests: the field "stream" is not free`}},
		{"engine without a path", "", "policy.path=", []string{`C010]: [policy] needs the key "path"`}},
		{"run name", "", "run.name=../x", []string{`C012]: run.name "../x" cannot name a folder`}},
		{"set without value", "", "run.steps", []string{"C030]: --set wants section.key=value"}},
		{"set without section", "", "steps=3", []string{"C030]: --set names no section"}},
		{"set past the end", "", "source.3.count=3", []string{`C030]: there is no item "3"`}},
		{"set of an unknown key", "", "run.stps=3", []string{"--> --set\n   | run.stps=3\n   |     ^^^^ did you mean \"steps\"?"}},
		{"settings", "[skills.a.config]\nx=[1]", "", []string{`C011]: "x" is an array; values here are text`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sets []string
			if tt.sets != "" {
				sets = []string{tt.sets}
			}
			_, err := Parse("run.toml", []byte(least+tt.add), sets)
			if err == nil {
				t.Fatal("accepted")
			}
			if diag.KindOf(err) != diag.KindConfig {
				t.Errorf("kind %q", diag.KindOf(err))
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("does not say %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestAllAtOnce(t *testing.T) {
	_, err := Parse("run.toml", []byte("[run]\nsed = 1\n[policy]\nthreads = -1\n[rollout]\ntimeout = 5m\n[eval]\nruns = 0\n"), nil)
	var l diag.List
	if !errors.As(err, &l) {
		t.Fatalf("%T", err)
	}
	var got []string
	for _, d := range l {
		got = append(got, d.Code)
	}
	if diff := cmp.Diff([]string{"C014", "C012", "C002", "C012"}, got); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
}

func TestRendering(t *testing.T) {
	_, err := Parse("run.toml", []byte("[run]\nname = \"x\"\n[skills.localization]\nwieght = 0.2\nplugin = \".\"\n[policy]\npath = \"p\"\n[[source]]\nkind = \"pocket\"\n"), nil)
	want := `error[C014]: unknown key "wieght"
  --> run.toml:4:1
 4 | wieght = 0.2
   | ^^^^^^ did you mean "weight"?
[skills.localization] accepts: plugin, weight, transport, judge, judge_config, prompt, config, grants`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestMarkerUnderText(t *testing.T) {
	_, err := Parse("run.toml", []byte(least+"judge = \"é\" # ü\n\tpromt = \"x\"\n"), nil)
	if err == nil || !strings.Contains(err.Error(), " 12 | \tpromt = \"x\"\n    | \t^^^^^ did you mean \"prompt\"?") {
		t.Error(err)
	}
	_, err = Parse("run.toml", []byte(least+"config = { \"é\" = 1, b = [] }\r\n"), nil)
	if err == nil || !strings.Contains(err.Error(), " 11 | config = { \"é\" = 1, b = [] }\n    |                         ^^") {
		t.Error(err)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.toml"), nil)
	if diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "C001") || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

func TestSet(t *testing.T) {
	c, err := Parse("run.toml", []byte(least), []string{
		"rollout.timeout=90m", "grpo.filter=[]", "grpo.clip_high=inf", "run.name=7", "skills.a.config.z=true",
		"source.0.count=3", "skills.b.plugin=.", "skills.b.weight=3", "run.steps=1", "run.steps = 2", `model.name="gpt"`, "model.base_url=http://127.0.0.1/v1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Rollout.Timeout != 90*time.Minute || c.GRPO.Filter == nil || len(c.GRPO.Filter) != 0 || c.Run.Name != "7" ||
		c.Skills[0].Config["z"] != "true" || c.Sources[0].Count != 3 || c.Run.Steps != 2 || c.Model.Name != "gpt" {
		t.Errorf("%+v", c)
	}
	if w := c.Weights(); len(w) != 2 || w[0] != 0.25/3.25 {
		t.Errorf("weights %v", w)
	}
}

func ignoreOrigin() cmp.Option {
	return cmp.Options{cmpopts.IgnoreFields(Config{}, "File"), cmpopts.IgnoreUnexported(Config{})}
}

func TestResolved(t *testing.T) {
	full := least + `judge = "."
prompt = "brief"
grants = ["sandbox", "judge"]
[skills.a.config]
"odd key" = "a\"b\\c\n\u0001é"
n = 3
[suites.s]
plugin = "name@1.2.3"
config = { partial = true }
[[source]]
kind = "pocket"
seed = 0
split = "unseen"
shape = "repository"
skills = ["s", "a"]
[grpo]
clip_low = 0.1
clip_high = inf
normalise_std = false
filter = []
tis = "token"
[sandbox]
memory = "1.5GiB"
disk = 1048577
[eval]
splits = ["unseen"]
[model]
base_url = "http://127.0.0.1:1/v1"
name = "m"
input_price = 0.15
cache = ""
`
	c, err := Parse("run.toml", []byte(full), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := Resolved(c)
	again, err := Parse("resolved.toml", text, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(c, again, ignoreOrigin()); diff != "" {
		t.Error(diff)
	}
	if string(Resolved(again)) != string(text) {
		t.Error("writing twice gives two texts")
	}
}

func TestDocsAreUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Docs() {
		t.Error(`docs/config.md is out of date: run "go run ./cmd/valence config docs -w"`)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(least), "run.seed=3")
	f.Add([]byte("[a]\n[a]\nb=1\nb.c=2\n[[a]]\nx = [[1], {y=2}, 1979-05-27]\n"), "source.0.x=\"")
	f.Add([]byte("[run]\nname=\"\"\"a\nb\"\"\"\n[skills]\na=1\n"), "a.b.c=[")
	f.Add([]byte("skills.a.plugin='.'\nskills = {b={plugin='x'}}\n"), "=")
	f.Fuzz(func(t *testing.T, data []byte, set string) {
		c, err := Parse("run.toml", data, []string{set})
		if err != nil {
			var l diag.List
			if !errors.As(err, &l) || len(l) == 0 || err.Error() == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		again, err := Parse("resolved.toml", Resolved(c), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, Resolved(c))
		}
		if diff := cmp.Diff(c, again, ignoreOrigin(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The words of [grpo] are those of package grpo.
func TestPresetsAreKnown(t *testing.T) {
	for _, f := range fields(configType) {
		if f.key != "grpo" {
			continue
		}
		for _, k := range fields(f.typ) {
			if k.key != "preset" {
				continue
			}
			got := slices.Sorted(slices.Values(k.enum))
			if diff := cmp.Diff(grpo.Presets(), got); diff != "" {
				t.Error(diff)
			}
		}
	}
}

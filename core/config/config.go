// Package config is the whole interface of a run: a strict TOML file. One tree of
// structs, with tags, is at once the parser's schema, the defaults, the checks,
// the "did you mean", the reference page and the writer of the resolved file, so
// that none of them can drift from the others.
//
// Tags of a field:
//
//	toml     the key
//	default  as it would be written in TOML, without quotes; absent: the zero value
//	required "true": the key must be written
//	optional "true": unset is a state of its own (nil or ""), and is not written back
//	min, max inclusive bounds; above: an exclusive lower bound; inf "true": infinity is allowed
//	enum     the accepted words, separated by |
//	absent   words of enum that are known but not offered by this build
//	unit     for the reference page
//	doc      one or two sentences for the reference page
//
// Relative paths in a file start at the current directory, not at the file.
package config

import (
	"runtime"
	"time"

	"github.com/valence-rl/valence/core/diag"
)

// Config is one run's configuration, complete: defaults are filled in.
type Config struct {
	Run           Run           `toml:"run" doc:"Identity and length of the run."`
	Policy        Policy        `toml:"policy" doc:"The policy that is trained or measured."`
	GRPO          GRPO          `toml:"grpo" doc:"The training algorithm. A key marked \"preset's\" overrides one knob of the preset."`
	Rollout       Rollout       `toml:"rollout" doc:"How one episode is run."`
	Sandbox       Sandbox       `toml:"sandbox" doc:"Where commands run, and what bounds them. The same limits hold for the agent's sandbox and for the evaluators'."`
	Async         Async         `toml:"async" doc:"How far rollouts and training may run apart."`
	Evaluate      Evaluate      `toml:"evaluate" doc:"How an output is scored."`
	Eval          Eval          `toml:"eval" doc:"Measuring during and after training."`
	SFT           SFT           `toml:"sft" doc:"The cold start: supervised training on the expert's verified trajectories. The sizes hold for a policy that is made from nothing."`
	Server        Server        `toml:"server" doc:"The server behind the policy \"openai\": any that speaks the OpenAI protocol's chat completions, such as vLLM, SGLang, llama.cpp, transformers serve, or a hosted one (docs/policies.md)."`
	Model         Model         `toml:"model" doc:"The model behind the capability \"model\": an OpenAI-compatible endpoint that plugins may ask."`
	Registry      Registry      `toml:"registry" doc:"Where plugins that are no folder and no file come from, and what is asked of them."`
	Trust         []Trust       `toml:"trust" doc:"Signers whose plugins may be used, one a section. With any of them, a plugin from a remote registry must be signed by one."`
	Sources       []Source      `toml:"source" doc:"Where records come from. The section may be repeated."`
	Decontaminate Decontaminate `toml:"decontaminate" doc:"What keeps out of training what is measured: records of a training source that share a repository, a fork of it, or a commit with a public suite, with an eval source, or with a file named here are dropped before training. The run's folder has the report, decontamination.json."`
	Skills        []Skill       `toml:"skills" doc:"One training skill a section, in the order of reports."`
	Suites        []Suite       `toml:"suites" doc:"One suite a section: measured, never trained on."`

	// File is where the configuration was read from; "" for none.
	File string `toml:"-"`

	origins map[string]diag.Source
}

// Run is [run].
type Run struct {
	Name  string `toml:"name" required:"true" doc:"Name of the run and of its folder. Letters, digits, dot, dash, underscore."`
	Seed  uint64 `toml:"seed" default:"1" doc:"Seed of every random choice of the run."`
	Steps int    `toml:"steps" default:"100" min:"0" unit:"steps" doc:"Optimizer updates to make."`
	Dir   string `toml:"dir" default:"runs" doc:"Folder that holds the run's folder."`
}

// Policy is [policy].
type Policy struct {
	Kind          string  `toml:"kind" default:"engine" enum:"engine|openai|oracle|noop|replay|random|expert" doc:"Who answers in eval and rollout: the engine, the model behind [server], the tasks' reference answers, nobody, what was recorded at path, the engine untrained, or the source's scripted expert. Training needs the engine."`
	Engine        string  `toml:"engine" default:"gorgonia" enum:"gorgonia|tinker|xla" absent:"tinker|xla" doc:"What samples from the policy and trains it."`
	Path          string  `toml:"path" optional:"true" doc:"Hugging Face folder of the policy; the engine needs it. Training starts from it; the cold start writes it. For kind = \"replay\" what was recorded: a file of episodes, ATIF, messages or Parquet, a folder of such, or a run's folder."`
	MaxContext    int     `toml:"max_context" default:"512" min:"64" max:"1048576" unit:"tokens" doc:"Longest conversation, prompt and tool output included."`
	Temperature   float64 `toml:"temperature" default:"1.0" min:"0" max:"2" doc:"Sampling temperature in training and in measuring; 0 is greedy."`
	MaxTurnTokens int     `toml:"max_turn_tokens" default:"0" min:"0" unit:"tokens" doc:"Longest single turn; 0: what the context leaves."`
	Threads       int     `toml:"threads" default:"0" min:"0" max:"4096" unit:"threads" doc:"Processor threads of the engine; 0: every core."`
}

// GRPO is [grpo]. The optional fields override the preset's knob of the same
// name (package grpo); nil and "" leave it.
type GRPO struct {
	Preset        string  `toml:"preset" default:"grpo++" enum:"grpo|grpo++|deepswe|dr-grpo|dapo|rloo|cispo|gspo" doc:"Which published recipe fills the knobs."`
	GroupSize     int     `toml:"group_size" default:"8" min:"2" max:"1024" unit:"episodes" doc:"Episodes of one task that are compared with one another."`
	GroupsPerStep int     `toml:"groups_per_step" default:"10" min:"1" max:"100000" unit:"groups" doc:"Groups that one optimizer update learns from."`
	LearningRate  float64 `toml:"learning_rate" default:"5e-5" above:"0" max:"1" doc:"Adam's learning rate after warm-up."`
	WarmupSteps   int     `toml:"warmup_steps" default:"0" min:"0" unit:"steps" doc:"Steps over which the learning rate rises from 0."`
	WeightDecay   float64 `toml:"weight_decay" default:"0" min:"0" max:"1" doc:"Decoupled weight decay; vectors are spared."`
	GradClip      float64 `toml:"grad_clip" default:"1.0" min:"0" doc:"Bound of the gradient's global norm; 0: none."`
	InnerEpochs   int     `toml:"inner_epochs" default:"1" min:"1" max:"64" doc:"Optimizer updates over the same groups."`

	ClipLow         *float64 `toml:"clip_low" optional:"true" above:"0" max:"1" doc:"The ratio is clipped below at 1 − clip_low."`
	ClipHigh        *float64 `toml:"clip_high" optional:"true" above:"0" inf:"true" doc:"The ratio is clipped above at 1 + clip_high; inf leaves it open."`
	Baseline        string   `toml:"baseline" optional:"true" enum:"group_mean|leave_one_out|none" doc:"What is subtracted from a reward."`
	NormaliseStd    *bool    `toml:"normalise_std" optional:"true" doc:"Divide advantages by the standard deviation of the group's rewards."`
	Length          string   `toml:"length" optional:"true" enum:"sequence|constant|token" doc:"Length normalisation: by the episode's own length, by one constant, or by the tokens of the batch."`
	Filter          []string `toml:"filter" optional:"true" enum:"max_context|timeout|max_steps" doc:"Compact filtering: episodes that ended so are masked out. [] filters none."`
	FilteredVote    *bool    `toml:"filtered_vote" optional:"true" doc:"Filtered episodes count in the baseline, as reward 0."`
	KL              *float64 `toml:"kl" optional:"true" min:"0" doc:"Coefficient of the divergence from the policy that training started from."`
	Entropy         *float64 `toml:"entropy" optional:"true" min:"0" doc:"Coefficient of the entropy bonus."`
	RewardLow       *float64 `toml:"reward_low" optional:"true" min:"-1000" max:"1000" doc:"Reward of score 0."`
	RewardHigh      *float64 `toml:"reward_high" optional:"true" min:"-1000" max:"1000" doc:"Reward of score 1; larger than reward_low."`
	DynamicSampling *bool    `toml:"dynamic_sampling" optional:"true" doc:"Draw further groups in place of those whose rewards are all equal."`
	TIS             string   `toml:"tis" optional:"true" enum:"off|token|sequence" doc:"Truncated importance sampling between the sampling and the training policy."`
	TISCap          *float64 `toml:"tis_cap" optional:"true" above:"0" doc:"Cap of the importance weight."`
}

// Rollout is [rollout].
type Rollout struct {
	MaxSteps         int           `toml:"max_steps" default:"20" min:"1" max:"10000" unit:"turns" doc:"Turns of the policy after which an episode ends."`
	Timeout          time.Duration `toml:"timeout" default:"5m" above:"0" doc:"Longest episode."`
	ObservationLimit Size          `toml:"observation_limit" default:"16KiB" min:"64" doc:"What the policy sees of one tool answer; the middle of a longer one is cut out."`
	Concurrency      int           `toml:"concurrency" default:"0" min:"0" max:"100000" unit:"episodes" doc:"Episodes under way at once; 0: four for each core, or as many as [server] may be asked at once if that answers."`
	LineNumbers      bool          `toml:"line_numbers" default:"true" doc:"Number the lines when a file is viewed."`
	Prompt           string        `toml:"prompt" default:"full" doc:"\"full\", \"brief\", or the path of a template; a skill may have its own."`
}

// Workers is Concurrency with its default worked out.
func (r Rollout) Workers() int {
	if r.Concurrency > 0 {
		return r.Concurrency
	}
	return 4 * runtime.GOMAXPROCS(0)
}

// Sandbox is [sandbox].
type Sandbox struct {
	Driver         string        `toml:"driver" default:"local" enum:"local|kube" doc:"What makes sandboxes: this machine, or a Kubernetes cluster as [sandbox.kube] says."`
	Memory         Size          `toml:"memory" default:"512MiB" min:"16777216" doc:"Memory of one sandbox."`
	CPUs           float64       `toml:"cpus" default:"1.0" above:"0" max:"1024" unit:"cores" doc:"Processor share of one sandbox."`
	Pids           int           `toml:"pids" default:"128" min:"8" max:"1000000" unit:"processes" doc:"Processes and threads at once. In a cluster the nodes' podPidsLimit bounds them instead."`
	Disk           Size          `toml:"disk" default:"256MiB" min:"1048576" doc:"What may be written."`
	Output         Size          `toml:"output" default:"1MiB" min:"1024" doc:"What is kept of one command's output."`
	CommandTimeout time.Duration `toml:"command_timeout" default:"60s" above:"0" doc:"Deadline of one command, after which the whole process tree is killed."`
	Upper          string        `toml:"upper" default:"memory" enum:"memory|disk" doc:"Where what commands write lies: in memory, where disk bounds it, or on disk, for large repositories, where disk bounds each file only. Of the local driver."`
	Bare           bool          `toml:"bare" default:"false" doc:"Where this machine refuses namespaces, go on without isolation: commands are then processes of this machine, held by Landlock, seccomp and resource limits alone (docs/sandbox.md). Off, such a run does not start. Of the local driver."`
	Image          string        `toml:"image" optional:"true" doc:"Container image of tasks that name none: a reference such as python:3.12-slim or, for the local driver, tar:PATH, oci:PATH, dir:PATH. Unset: they run on this machine's tool chain (docs/images.md); a cluster needs one, with /bin/sh, and Python for sources of Python tasks."`
	Memo           bool          `toml:"memo" default:"false" doc:"Remember the result of an evaluator's run and give it again for an identical one (same files, same commands). Only for tests whose outcome depends on nothing else."`

	Images Images `toml:"images" doc:"How the local driver gets and keeps container images (docs/images.md). A cluster's nodes do that themselves."`
	Kube   Kube   `toml:"kube" doc:"Sandboxes as pods of a cluster, for driver = \"kube\" (docs/kubernetes.md)."`
}

// Images is [sandbox.images].
type Images struct {
	Store   string            `toml:"store" optional:"true" doc:"Folder in which unpacked images are kept, for all runs; unset: valence/images in the user's cache folder."`
	Size    Size              `toml:"size" default:"20GiB" min:"1" doc:"What the store may hold; what was not used for longest goes first, and what is in use stays."`
	Timeout time.Duration     `toml:"timeout" default:"30m" above:"0" doc:"Deadline of getting one image, beside that of making a sandbox."`
	Mirrors map[string]string `toml:"mirrors" optional:"true" doc:"Registries to ask before another one: \"docker.io\" = \"mirror.example:5000/hub\"; several with blanks in between."`
	Folders []string          `toml:"folders" optional:"true" doc:"Folders in which images of this machine may lie that tasks name by tar:, oci: or dir:. Unset: none, as tasks come from plugins and data sets."`
}

// Kube is [sandbox.kube].
type Kube struct {
	Tools         string            `toml:"tools" optional:"true" doc:"Image with the tool server, of the same release as this program."`
	Kubeconfig    string            `toml:"kubeconfig" optional:"true" doc:"File that names the cluster. Unset: the pod's own account within a cluster, else $KUBECONFIG or ~/.kube/config."`
	Context       string            `toml:"context" optional:"true" doc:"Context of the kubeconfig; unset: its current one."`
	Namespace     string            `toml:"namespace" optional:"true" doc:"Namespace that holds everything; unset: the context's."`
	RuntimeClass  string            `toml:"runtime_class" optional:"true" doc:"RuntimeClass of pods, e.g. gvisor or kata; unset: the cluster's default."`
	NodeSelector  map[string]string `toml:"node_selector" optional:"true" doc:"Labels of the nodes that pods may run on."`
	PullSecrets   []string          `toml:"pull_secrets" optional:"true" doc:"Secrets of the namespace that images are pulled with."`
	CPUShare      float64           `toml:"cpu_share" default:"10.0" min:"1" max:"1000" unit:"sandboxes" doc:"How many sandboxes' cpus one core of a node is promised to. 1 also keeps the tool server alive when a command takes too much memory."`
	Creates       int               `toml:"creates" default:"8" min:"1" max:"1000" unit:"pods" doc:"Pods being created at once: 8 for each core of the API server."`
	CreateTimeout time.Duration     `toml:"create_timeout" default:"5m" above:"0" doc:"Deadline of a sandbox's creation, the pull of its image and the wait for a node included."`
	Warm          int               `toml:"warm" default:"0" min:"0" max:"10000" unit:"pods" doc:"Pods kept ready for each image: the group size or more; 0: none."`
	Reach         []string          `toml:"reach" optional:"true" doc:"Further addresses that must be out of a pod's reach, each tcp/HOST:PORT."`
}

// Async is [async].
type Async struct {
	MaxStaleness int `toml:"max_staleness" default:"1" min:"0" max:"1000" unit:"versions" doc:"How many versions an episode's policy may lag behind. 0: rollouts and training take turns and the run repeats bit for bit."`
	Retries      int `toml:"retries" default:"2" min:"0" max:"100" unit:"attempts" doc:"Further attempts at an episode that the infrastructure failed."`
}

// Evaluate is [evaluate].
type Evaluate struct {
	Timeout time.Duration `toml:"timeout" default:"5m" above:"0" doc:"Deadline of one evaluation, all its commands together."`
	Memory  *Size         `toml:"memory" optional:"true" min:"16777216" max:"1099511627776" doc:"Memory of a plugin: of each instance of a module, 4GiB at most, or of a process with all its calls. Unset: 512MiB of a module, 4GiB of a process; one in Go needs 128MiB to start."`
}

// Eval is [eval].
type Eval struct {
	Runs   int      `toml:"runs" default:"3" min:"1" max:"1000" unit:"runs" doc:"k of Avg@k: how often each task is run."`
	Every  int      `toml:"every" default:"10" min:"0" unit:"steps" doc:"Measure after every so many steps, and before the first and after the last; 0: only those two."`
	Tasks  int      `toml:"tasks" default:"100" min:"0" unit:"tasks" doc:"Tasks a skill, the first of the source; 0: all."`
	Splits []string `toml:"splits" optional:"true" doc:"Which splits of the eval sources are measured; unset: all."`
}

// SFT is [sft].
type SFT struct {
	PerSkill      int      `toml:"per_skill" default:"300" min:"1" unit:"trajectories" doc:"Verified trajectories of each skill."`
	Epochs        int      `toml:"epochs" default:"3" min:"1" max:"10000" doc:"Passes over them."`
	Batch         int      `toml:"batch" default:"16" min:"1" max:"100000" unit:"trajectories" doc:"Trajectories of one update."`
	LearningRate  float64  `toml:"learning_rate" default:"1e-3" above:"0" max:"1" doc:"Peak learning rate; it falls along a cosine."`
	WeightDecay   float64  `toml:"weight_decay" default:"0.05" min:"0" max:"1" doc:"Decoupled weight decay; vectors are spared."`
	Warmup        int      `toml:"warmup" default:"100" min:"0" unit:"steps" doc:"Steps over which the learning rate rises from 0."`
	ContextWeight float64  `toml:"context_weight" default:"0.3" min:"0" max:"1" doc:"Weight of the tokens that the policy reads, against 1 for those it writes. A policy made from nothing has to learn to read; for one that can, 0."`
	Expert        string   `toml:"expert" default:"scripted" enum:"scripted|oracle" doc:"Whose trajectories: the scripted expert of the source, or the reference answers."`
	Trajectories  []string `toml:"trajectories" optional:"true" doc:"Files or folders of trajectories to learn from, all of them, in place of an expert's: what data trajectories gathered or exported, or messages, ATIF and Parquet of other programs (docs/sft.md)."`
	TokenizerSize int      `toml:"tokenizer_size" default:"512" min:"300" max:"1048576" unit:"tokens" doc:"Vocabulary of a new tokenizer."`
	Hidden        int      `toml:"hidden" default:"128" min:"8" max:"65536" doc:"Width of a new policy."`
	Layers        int      `toml:"layers" default:"5" min:"1" max:"512" doc:"Layers of a new policy."`
	Heads         int      `toml:"heads" default:"4" min:"1" max:"1024" doc:"Attention heads of a new policy."`
	KVHeads       int      `toml:"kv_heads" default:"4" min:"1" max:"1024" doc:"Heads of keys and values; it divides heads."`
	HeadDim       int      `toml:"head_dim" default:"32" min:"4" max:"1024" doc:"Width of one head; even."`
	Intermediate  int      `toml:"intermediate" default:"384" min:"8" max:"1048576" doc:"Width of the feed-forward layer."`
}

// Server is [server]; Model "" means that no server is configured.
type Server struct {
	BaseURLs          []string      `toml:"base_urls" optional:"true" doc:"Addresses up to and including /v1. With several, which must serve the same model, an episode stays at one and goes on elsewhere if that fails."`
	Model             string        `toml:"model" optional:"true" doc:"Model to ask for."`
	APIKeyEnv         string        `toml:"api_key_env" optional:"true" doc:"Environment variable that holds the key. The key itself never stands in a file, a log or a record."`
	Chat              string        `toml:"chat" default:"tools" enum:"tools|brief" doc:"How the model calls tools: by the server's tool calls, or in the brief chat of this program's own policies, which the server hands on as text."`
	MaxContext        int           `toml:"max_context" default:"0" min:"0" max:"1073741824" unit:"tokens" doc:"Longest conversation by the server's count; 0: the server's own limit."`
	MaxTokensField    string        `toml:"max_tokens_field" default:"max_tokens" enum:"max_tokens|max_completion_tokens" doc:"What the server calls the bound of a turn, which is policy.max_turn_tokens."`
	TopP              float64       `toml:"top_p" default:"1.0" above:"0" max:"1" doc:"Sample from the likeliest tokens of this share; 1: from all. The temperature is policy.temperature."`
	Seed              bool          `toml:"seed" default:"true" doc:"Send a seed with each turn, derived from the episode's."`
	Extra             string        `toml:"extra" optional:"true" doc:"Further fields of each request, as a JSON object in text, such as '{\"top_k\": 20}'. They win over the policy's own."`
	Stream            bool          `toml:"stream" default:"true" doc:"Ask for answers piece by piece. It tells a server that writes slowly from one that is silent, and shows text live."`
	Tokens            bool          `toml:"tokens" default:"true" doc:"Ask for token ids and logprobs, which vLLM gives; a server that refuses is asked without."`
	Reasoning         bool          `toml:"reasoning" default:"false" doc:"Send the model its earlier reasoning back. It is kept in trajectories anyway."`
	Concurrency       int           `toml:"concurrency" default:"8" min:"1" max:"100000" unit:"requests" doc:"Requests under way at once at each address; others wait, and their episodes' time runs."`
	RequestsPerMinute int           `toml:"requests_per_minute" default:"0" min:"0" doc:"Most requests a minute, attempts counted; 0: no limit."`
	TokensPerMinute   int           `toml:"tokens_per_minute" default:"0" min:"0" doc:"Most tokens a minute, read and written; 0: no limit."`
	Attempts          int           `toml:"attempts" default:"6" min:"1" max:"100" unit:"attempts" doc:"Attempts at a turn, with growing pauses or those that the server asks for; then the episode is tried again as async.retries says."`
	Timeout           time.Duration `toml:"timeout" default:"5m" above:"0" doc:"Deadline of one attempt."`
	Silence           time.Duration `toml:"silence" default:"2m" above:"0" doc:"Longest wait for the next piece of a stream."`
	InputPrice        float64       `toml:"input_price" default:"0" min:"0" doc:"Price of a million tokens read, in US dollars."`
	CachedPrice       *float64      `toml:"cached_price" optional:"true" min:"0" doc:"Price of a million tokens read that the server knew from before; unset: input_price."`
	OutputPrice       float64       `toml:"output_price" default:"0" min:"0" doc:"Price of a million tokens written."`
}

// Model is [model]; BaseURL "" means that no model is configured.
type Model struct {
	BaseURL     string        `toml:"base_url" doc:"Address up to and including /v1."`
	Name        string        `toml:"name" doc:"Model to ask for."`
	APIKeyEnv   string        `toml:"api_key_env" doc:"Environment variable that holds the key. The key itself never stands in a file."`
	Concurrency int           `toml:"concurrency" default:"8" min:"1" max:"10000" unit:"questions" doc:"Questions to the server at once; others wait."`
	Timeout     time.Duration `toml:"timeout" default:"2m" above:"0" doc:"Deadline of one attempt at an answer. What the server cannot answer for the moment is tried four times."`
	InputPrice  float64       `toml:"input_price" default:"0" min:"0" doc:"Price of a million tokens read, in any currency; costs are counted in it."`
	OutputPrice float64       `toml:"output_price" default:"0" min:"0" doc:"Price of a million tokens written."`
	Cache       *string       `toml:"cache" optional:"true" doc:"Folder in which answers are kept by the content of their question, for later steps, runs and resumptions. Unset: valence/answers in the user's cache folder; \"\": in memory only."`
}

// Registry is [registry].
type Registry struct {
	Repository string `toml:"repository" optional:"true" doc:"Where name@version is looked up: an OCI repository prefix such as ghcr.io/acme/skills, to which /name:version is added."`
	Lock       string `toml:"lock" default:"plugins.lock" doc:"File with the pinned digests, which hold where there are any. Like the plugins' folders, it is looked up from the current directory. Written by plugin add; --locked refuses what it does not pin."`
}

// Trust is one [trust.<name>].
type Trust struct {
	Name string `toml:"-" name:"true"`
	Key  string `toml:"key" required:"true" doc:"The signer's public key: ed25519: and the 32 bytes in base64, as plugin keygen prints it."`
}

// Source is one [[source]].
type Source struct {
	Kind    string   `toml:"kind" required:"true" enum:"pocket|records|swebench|git|harbor" absent:"swebench|git|harbor" doc:"What the records are made from: the generated pocket world, or a file that data import wrote or reads."`
	Path    string   `toml:"path" optional:"true" doc:"File or folder of the records; the pocket world is generated and has none."`
	Seed    *uint64  `toml:"seed" optional:"true" doc:"Seed of the generator, and of what is held out; unset: the run's."`
	Count   int      `toml:"count" default:"1000" min:"0" max:"10000000" unit:"records" doc:"Records to generate, or the most to take from a file, of which 0, its default there, takes all."`
	Split   string   `toml:"split" default:"train" enum:"train|eval|unseen" doc:"Which part of the world: its training part, what is held out, or the held-out function families. Of a file: the part that holdout leaves, or the part that it holds out."`
	Holdout float64  `toml:"holdout" default:"0" min:"0" max:"0.9" doc:"Share of a file's repositories that only split = \"eval\" has, drawn by their names; every source of one path has the same. 0: either split is the whole file."`
	Shape   string   `toml:"shape" default:"module" enum:"module|repository" doc:"One module a record, or several; of the pocket world."`
	Skills  []string `toml:"skills" optional:"true" doc:"The skills and suites that draw from it; unset: all."`
	Use     string   `toml:"use" enum:"train|eval" optional:"true" doc:"What the records serve; unset: train for split = \"train\", else eval. Held-out records are never trained on."`
}

// Decontaminate is [decontaminate].
type Decontaminate struct {
	Off    bool     `toml:"off" default:"false" doc:"Train on what is measured. The run says so wherever it reports."`
	Suites []string `toml:"suites" optional:"true" enum:"swebench|swebench-dev|swebench-multilingual|multi-swebench|swebench-pro|swelancer" doc:"Public suites whose repositories are kept out; unset: all of them."`
	Files  []string `toml:"files" optional:"true" doc:"Further files of what is measured: what data import reads, or a text (.txt) of repositories and commits, one a line."`
}

// SeedOr is the source's own seed or, where it has none, the run's.
func (s Source) SeedOr(run uint64) uint64 {
	if s.Seed != nil {
		return *s.Seed
	}
	return run
}

// Serves says whether the skill or suite draws from the source.
func (s Source) Serves(skill string) bool {
	if s.Skills == nil {
		return true
	}
	for _, n := range s.Skills {
		if n == skill {
			return true
		}
	}
	return false
}

// Skill is one [skills.<name>].
type Skill struct {
	Name        string            `toml:"-" name:"true"`
	Plugin      string            `toml:"plugin" required:"true" doc:"Folder or .wasm file of the plugin, name@version in the registry, or oci://host/repository:tag."`
	Weight      float64           `toml:"weight" default:"1.0" min:"0" doc:"Share of the training tasks, relative to the other skills. 0: the skill is measured and not trained on."`
	Transport   string            `toml:"transport" optional:"true" enum:"wasm|process" doc:"How the plugin runs: sandboxed in this program, or as a process of its own; unset: as its manifest says. A process is not sandboxed."`
	Judge       string            `toml:"judge" optional:"true" doc:"Plugin of the judge that the evaluator may ask."`
	JudgeConfig map[string]string `toml:"judge_config" optional:"true" doc:"The judge's own settings, handed over as text."`
	Prompt      string            `toml:"prompt" optional:"true" doc:"\"full\", \"brief\", or the path of a template; unset: that of [rollout]."`
	Config      map[string]string `toml:"config" optional:"true" doc:"The plugin's own settings, handed over as text."`
	Grants      []string          `toml:"grants" optional:"true" enum:"sandbox|model|judge|log" doc:"Capabilities granted; unset: those that the plugin's manifest declares."`
}

// Suite is one [suites.<name>].
type Suite struct {
	Name        string            `toml:"-" name:"true"`
	Plugin      string            `toml:"plugin" required:"true" doc:"Folder or .wasm file of the plugin, name@version in the registry, or oci://host/repository:tag."`
	Transport   string            `toml:"transport" optional:"true" enum:"wasm|process" doc:"How the plugin runs: sandboxed in this program, or as a process of its own; unset: as its manifest says. A process is not sandboxed."`
	Judge       string            `toml:"judge" optional:"true" doc:"Plugin of the judge that the evaluator may ask."`
	JudgeConfig map[string]string `toml:"judge_config" optional:"true" doc:"The judge's own settings, handed over as text."`
	Prompt      string            `toml:"prompt" optional:"true" doc:"\"full\", \"brief\", or the path of a template; unset: that of [rollout]."`
	Config      map[string]string `toml:"config" optional:"true" doc:"The plugin's own settings, handed over as text."`
	Grants      []string          `toml:"grants" optional:"true" enum:"sandbox|model|judge|log" doc:"Capabilities granted; unset: those that the plugin's manifest declares."`
}

// Weights gives the training skills' shares, which sum to 1, in the order of
// Skills; a skill of weight 0 has share 0.
func (c *Config) Weights() []float64 {
	var sum float64
	for _, s := range c.Skills {
		sum += s.Weight
	}
	w := make([]float64, len(c.Skills))
	for i, s := range c.Skills {
		if sum > 0 {
			w[i] = s.Weight / sum
		}
	}
	return w
}

// Where gives the place at which a key was written ("skills.review.weight",
// "source.0.count"), or the section that lacks it, so that a later check can point
// there. The zero Source means that neither stands in the file.
func (c *Config) Where(key string) diag.Source {
	for key != "" {
		if s, ok := c.origins[key]; ok {
			return s
		}
		key = parentKey(key)
	}
	return diag.Source{}
}

package wire

// File is one file of a tree. Paths are relative, slash-separated and clean.
type File struct {
	Path string
	Data []byte
	Exec bool // executable
}

func (m *File) fields(c *codec) {
	c.string(1, &m.Path)
	c.bytes(2, &m.Data)
	c.bool(3, &m.Exec)
}

// Change is a file as it is after something was done to a tree, or its removal.
type Change struct {
	Path    string
	Data    []byte // whole content afterwards; empty when Deleted
	Exec    bool
	Deleted bool
	Symlink string // target, when the path is now a symbolic link
}

func (m *Change) fields(c *codec) {
	c.string(1, &m.Path)
	c.bytes(2, &m.Data)
	c.bool(3, &m.Exec)
	c.bool(4, &m.Deleted)
	c.string(5, &m.Symlink)
}

// Workspace says what a sandbox holds when it starts: an image's tree or the
// files given, then Patches (unified diffs) applied in order.
type Workspace struct {
	Image   string // an OCI reference, repository:tag or repository@sha256:…; "" for the host's tool chain with Files
	Files   []File
	Patches []string
	Dir     string   // absolute; "" means the directory that the image names, else /workspace
	Env     []string // KEY=VALUE of every command
}

func (m *Workspace) fields(c *codec) {
	c.string(1, &m.Image)
	many(c, 2, &m.Files)
	c.strings(3, &m.Patches)
	c.string(4, &m.Dir)
	c.strings(5, &m.Env)
}

// Record is one item of a source, in the shape that SWE-bench gave the field,
// with what the generators of each kind can add. Builders read it, agents never do.
type Record struct {
	ID              string // instance_id; unique in its source
	Repo            string
	BaseCommit      string
	Source          string // kind of the source: pocket, swebench, git, harbor
	Language        string // "python"
	Problem         string // problem_statement, as an issue's author wrote it
	Workspace       Workspace
	Patch           string // gold patch, a unified diff on Workspace (which has the bug)
	TestPatch       string // unified diff that brings the tests of FailToPass
	FailToPass      []string
	PassToPass      []string
	TestCommand     string      // shell; runs the tests of TestFiles and names each with its status
	TestFiles       []string    // restored before tests are run
	LogParser       string      // how TestCommand's output is read: a name of sdk/testlog
	Targets         []Target    // functions worth testing
	Mutants         []Mutant    // buggy variants of targets, each caught by the golden tests
	Candidates      []Candidate // fixes to review
	Reproduce       string      // a script that shows the issue: exit 0 once it is fixed; "" if none is known
	TestReference   string      // contents for the unit-test skill's file: passes, and catches every mutant; "" if none is known
	Meta            []Pair      // facts for reports: family, split, phrasing
	UnitTestFile    string      // the file the unit-test skill asks for
	UnitTestCommand string      // shell; exit status 0 means that the tests of UnitTestFile passed
}

func (m *Record) fields(c *codec) {
	c.string(1, &m.ID)
	c.string(2, &m.Repo)
	c.string(3, &m.BaseCommit)
	c.string(4, &m.Source)
	c.string(5, &m.Language)
	c.string(6, &m.Problem)
	one(c, 7, &m.Workspace)
	c.string(8, &m.Patch)
	c.string(9, &m.TestPatch)
	c.strings(10, &m.FailToPass)
	c.strings(11, &m.PassToPass)
	c.string(12, &m.TestCommand)
	c.strings(13, &m.TestFiles)
	c.string(14, &m.LogParser)
	many(c, 15, &m.Targets)
	many(c, 16, &m.Mutants)
	many(c, 17, &m.Candidates)
	c.string(18, &m.Reproduce)
	c.string(19, &m.TestReference)
	many(c, 20, &m.Meta)
	c.string(21, &m.UnitTestFile)
	c.string(22, &m.UnitTestCommand)
}

// Target is a function to test, in the fixed workspace.
type Target struct {
	Path string
	Name string
	Line int64
}

func (m *Target) fields(c *codec) {
	c.string(1, &m.Path)
	c.string(2, &m.Name)
	c.int(3, &m.Line)
}

// Mutant is one buggy variant: whole files that replace those of the fixed workspace.
type Mutant struct {
	ID     string
	Target string // Target.Name
	Files  []File
}

func (m *Mutant) fields(c *codec) {
	c.string(1, &m.ID)
	c.string(2, &m.Target)
	many(c, 3, &m.Files)
}

// Candidate is a proposed fix with its label, found by running the tests.
type Candidate struct {
	Patch   string // unified diff on Workspace
	Correct bool
	Origin  string // who made it: "gold", "mutated-gold", a policy's name
}

func (m *Candidate) fields(c *codec) {
	c.string(1, &m.Patch)
	c.bool(2, &m.Correct)
	c.string(3, &m.Origin)
}

// Pair is a named text.
type Pair struct{ Key, Value string }

func (m *Pair) fields(c *codec) {
	c.string(1, &m.Key)
	c.string(2, &m.Value)
}

// Task is an immutable input with its context (ALGORITHMS 1). Everything but
// Hidden, Reference and Meta may be seen by the agent.
type Task struct {
	Key       string // stable and unique: skill/record or skill/record#n
	Skill     string
	Record    string // the record's ID
	System    string // system prompt; may be empty
	Prompt    string // the user's message
	Workspace Workspace
	Collect   []string   // globs: output is restricted to them; none: everything
	Hidden    []byte     // the evaluator's own; never enters the agent's sandbox
	Reference *Reference // what a perfect agent leaves; hidden; nil if unknown
	Meta      []Pair
}

func (m *Task) fields(c *codec) {
	c.string(1, &m.Key)
	c.string(2, &m.Skill)
	c.string(3, &m.Record)
	c.string(4, &m.System)
	c.string(5, &m.Prompt)
	one(c, 6, &m.Workspace)
	c.strings(7, &m.Collect)
	c.bytes(8, &m.Hidden)
	optional(c, 9, &m.Reference)
	many(c, 10, &m.Meta)
}

// Reference is an answer that scores 1.
type Reference struct {
	Changes []Change
	Message string
}

func (m *Reference) fields(c *codec) {
	many(c, 1, &m.Changes)
	c.string(2, &m.Message)
}

// Output is what the agent left, collected by the host from the file system.
type Output struct {
	Changes []Change // within Task.Collect, sorted by path
	Outside []string // paths that were changed outside Task.Collect, sorted
	Message string   // the final message
	End     string   // why the episode ended: "submitted" or a limit's name
}

func (m *Output) fields(c *codec) {
	many(c, 1, &m.Changes)
	c.strings(2, &m.Outside)
	c.string(3, &m.Message)
	c.string(4, &m.End)
}

// Verdict is an evaluator's answer: always a score. What is not a score is an
// error, which a verdict cannot express.
type Verdict struct {
	Score      float64 // in [0,1]
	Components []Component
	Reason     string // in words
}

func (m *Verdict) fields(c *codec) {
	c.float(1, &m.Score)
	many(c, 2, &m.Components)
	c.string(3, &m.Reason)
}

// Component is a named part of a verdict.
type Component struct {
	Name  string
	Value float64
}

func (m *Component) fields(c *codec) {
	c.string(1, &m.Name)
	c.float(2, &m.Value)
}

// DescribeRequest asks a plugin what it is.
type DescribeRequest struct{ ABI int64 }

func (m *DescribeRequest) fields(c *codec) { c.int(1, &m.ABI) }

// Description is the plugin's answer; Roles are "build", "evaluate", "judge".
type Description struct {
	Name    string
	Version string
	ABI     int64
	Roles   []string
}

func (m *Description) fields(c *codec) {
	c.string(1, &m.Name)
	c.string(2, &m.Version)
	c.int(3, &m.ABI)
	c.strings(4, &m.Roles)
}

// BuildRequest asks for the tasks of one record.
type BuildRequest struct {
	Record   Record
	Template string // "full", "brief", or the text of a template (it has a line break or a brace)
	Config   []Pair // the skill's own keys of the run's TOML
	Seed     uint64 // for every choice the builder makes
}

func (m *BuildRequest) fields(c *codec) {
	one(c, 1, &m.Record)
	c.string(2, &m.Template)
	many(c, 3, &m.Config)
	c.uint(4, &m.Seed)
}

// BuildResponse holds the tasks, or says why there is none.
type BuildResponse struct {
	Tasks   []Task
	Skipped string // reason, when Tasks is empty
}

func (m *BuildResponse) fields(c *codec) {
	many(c, 1, &m.Tasks)
	c.string(2, &m.Skipped)
}

// EvaluateRequest asks for the verdict on one output.
type EvaluateRequest struct {
	Task    Task // with Hidden
	Output  Output
	Config  []Pair
	Seed    uint64
	Timeout int64 // milliseconds for the whole evaluation
}

func (m *EvaluateRequest) fields(c *codec) {
	one(c, 1, &m.Task)
	one(c, 2, &m.Output)
	many(c, 3, &m.Config)
	c.uint(4, &m.Seed)
	c.int(5, &m.Timeout)
}

// JudgeRequest asks whether two logs show that a script reproduces an issue.
type JudgeRequest struct {
	Issue  string
	Script string
	Before Log    // on the original code
	After  Log    // with the gold patch
	Config []Pair // the judge's own settings; the host fills them in
}

func (m *JudgeRequest) fields(c *codec) {
	c.string(1, &m.Issue)
	c.string(2, &m.Script)
	one(c, 3, &m.Before)
	one(c, 4, &m.After)
	many(c, 5, &m.Config)
}

// JudgeResponse is the judge's opinion.
type JudgeResponse struct {
	Verdict    bool
	Confidence float64 // in [0,1]
	Rationale  string
}

func (m *JudgeResponse) fields(c *codec) {
	c.bool(1, &m.Verdict)
	c.float(2, &m.Confidence)
	c.string(3, &m.Rationale)
}

// Log is how one command ended.
type Log struct {
	Output    string // stdout and stderr together; invalid UTF-8 is replaced
	ExitCode  int64  // 128+n after signal n
	TimedOut  bool
	Truncated bool
	Millis    int64
}

func (m *Log) fields(c *codec) {
	c.string(1, &m.Output)
	c.int(2, &m.ExitCode)
	c.bool(3, &m.TimedOut)
	c.bool(4, &m.Truncated)
	c.int(5, &m.Millis)
}

// RunRequest asks the host for one fresh sandbox: made from Workspace, changed by
// Patches and then by Changes, where Commands run in order and which is then
// destroyed. Nothing of one RunRequest reaches another.
type RunRequest struct {
	Workspace Workspace
	Patches   []string
	Changes   []Change
	Commands  []Command
}

func (m *RunRequest) fields(c *codec) {
	one(c, 1, &m.Workspace)
	c.strings(2, &m.Patches)
	many(c, 3, &m.Changes)
	many(c, 4, &m.Commands)
}

// Command is one shell command of a RunRequest.
type Command struct {
	Shell  string
	Env    []string
	Millis int64 // deadline; 0: the run's default
}

func (m *Command) fields(c *codec) {
	c.string(1, &m.Shell)
	c.strings(2, &m.Env)
	c.int(3, &m.Millis)
}

// RunResponse has one log a command.
type RunResponse struct{ Logs []Log }

func (m *RunResponse) fields(c *codec) { many(c, 1, &m.Logs) }

// ModelRequest asks a model for texts.
type ModelRequest struct {
	Messages    []ModelMessage
	Temperature float64
	MaxTokens   int64
	Seed        uint64
	N           int64  // answers; 0 means 1
	Schema      string // JSON schema that each answer follows; "" for free text. A server that has no structured answers ignores it.
}

func (m *ModelRequest) fields(c *codec) {
	many(c, 1, &m.Messages)
	c.float(2, &m.Temperature)
	c.int(3, &m.MaxTokens)
	c.uint(4, &m.Seed)
	c.int(5, &m.N)
	c.string(6, &m.Schema)
}

// ModelMessage is one turn; Role is system, user or assistant.
type ModelMessage struct{ Role, Content string }

func (m *ModelMessage) fields(c *codec) {
	c.string(1, &m.Role)
	c.string(2, &m.Content)
}

// ModelResponse has the texts.
type ModelResponse struct{ Texts []string }

func (m *ModelResponse) fields(c *codec) { c.strings(1, &m.Texts) }

// LogLine is a message for the host's log.
type LogLine struct {
	Level string // debug, info, warn, error
	Text  string
}

func (m *LogLine) fields(c *codec) {
	c.string(1, &m.Level)
	c.string(2, &m.Text)
}

// Empty is an answer without content.
type Empty struct{}

func (*Empty) fields(*codec) {}

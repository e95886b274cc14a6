package sdktest

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/wire"
)

func (x *examination) checkKey(t *tally, known map[string]bool, rec *sdk.Record, task *sdk.Task) {
	switch {
	case known[task.Key]:
		t.fail(task.Key, "the key is given twice")
	case !strings.HasPrefix(task.Key, x.name+"/") || task.Skill != x.name:
		t.fail(task.Key, "the key does not start with the skill's name %s, or its skill %q is another", x.name, task.Skill)
	case task.Record != rec.ID:
		t.fail(task.Key, "its record is %q, want %q", task.Record, rec.ID)
	default:
		t.pass()
	}
	known[task.Key] = true
}

// placeholder is how a template names a text to put in.
var placeholder = regexp.MustCompile(`\{[a-z][a-z0-9_]*\}`)

func checkPrompt(t *tally, form string, rec *sdk.Record, task *sdk.Task) {
	if strings.TrimSpace(task.Prompt) == "" {
		t.fail(task.Key, "no prompt in the form %q", form)
		return
	}
	source := wire.Marshal(rec)
	for _, p := range placeholder.FindAllString(task.System+"\n"+task.Prompt, -1) {
		if !bytes.Contains(source, []byte(p)) { // else it is a word of the record
			t.fail(task.Key, "the placeholder %s is left in the prompt of the form %q", p, form)
			return
		}
	}
	t.pass()
}

func checkCollect(t *tally, task *sdk.Task) {
	if len(task.Collect) == 0 {
		t.fail(task.Key, "it collects everything that the agent changes; name the files of the answer")
		return
	}
	for _, g := range task.Collect {
		if _, err := path.Match(g, ""); err != nil {
			t.fail(task.Key, "collects %q: %v", g, err)
			return
		}
	}
	if r := task.Reference; r != nil {
		for _, c := range r.Changes {
			if !sdk.Collects(task.Collect, c.Path) {
				t.fail(task.Key, "the reference changes %s, which is not collected", c.Path)
				return
			}
		}
	}
	t.pass()
}

// pathsOf gives paths where the task's output is collected: those of the reference,
// and one for each of its globs.
func pathsOf(task *sdk.Task) []string {
	var out []string
	add := func(p string) {
		if p != "" && p != "/" && sdk.Collects(task.Collect, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if r := task.Reference; r != nil {
		for _, c := range r.Changes {
			add(c.Path)
		}
	}
	for _, g := range task.Collect {
		below, deep := strings.CutSuffix(g, "/**")
		p := strings.NewReplacer(`\`, "", "*", "x", "?", "x").Replace(below)
		if deep {
			p += "/x"
		}
		add(p)
	}
	return out
}

// secret is a text that the agent must not see before it has finished.
type secret struct {
	what string
	text []byte
	path string // where the workspace must not hold text; "" is anywhere at all
}

// Texts that are shorter occur by chance.
const (
	shortestHidden    = 6
	shortestPart      = 12
	shortestReference = 16
)

// secretsOf gives the hidden part of a task, such parts of it as the builder did
// not take from the record, and the contents of the reference's files.
func secretsOf(task *sdk.Task, rec *sdk.Record) []secret {
	var out []secret
	source := wire.Marshal(rec)
	if len(task.Hidden) >= shortestHidden {
		out = append(out, secret{what: "the hidden part", text: task.Hidden})
	}
	for part := range bytes.FieldsFuncSeq(task.Hidden, func(c rune) bool { return c < ' ' || c == '"' || c == utf8.RuneError }) {
		if len(part) >= shortestPart && len(part) < len(task.Hidden) && !bytes.Contains(source, part) {
			out = append(out, secret{what: "a part of what is hidden", text: part})
		}
	}
	if task.Reference == nil {
		return out
	}
	for _, c := range task.Reference.Changes {
		text := bytes.TrimSpace(c.Data)
		found := secret{what: "the reference's " + c.Path, text: text}
		if len(text) < shortestReference {
			found.path = c.Path
		}
		// What the record itself shows is no secret, as where a file is to be copied.
		if len(text) > 0 && (found.path != "" || !strings.Contains(rec.Problem, string(text))) && !slices.ContainsFunc(rec.Workspace.Files, found.in) {
			out = append(out, found)
		}
	}
	return out
}

// in says whether a file holds the secret.
func (s secret) in(f sdk.File) bool {
	if s.path != "" {
		return f.Path == s.path && bytes.Equal(bytes.TrimSpace(f.Data), s.text)
	}
	return bytes.Contains(f.Data, s.text) || strings.Contains(f.Path, string(s.text))
}

// shown is what a task itself shows to the agent.
func shown(task *sdk.Task) []sdk.File {
	out := []sdk.File{
		{Path: "(prompt)", Data: []byte(task.Prompt)}, {Path: "(system prompt)", Data: []byte(task.System)},
		{Path: "(environment)", Data: []byte(strings.Join(task.Workspace.Env, "\n"))},
	}
	for _, p := range task.Workspace.Patches {
		out = append(out, sdk.File{Path: "(patch)", Data: []byte(p)})
	}
	return append(out, task.Workspace.Files...)
}

// search looks for secrets in files and their names.
func search(t *tally, key string, secrets []secret, files []sdk.File) {
	for _, s := range secrets {
		if i := slices.IndexFunc(files, s.in); i >= 0 {
			t.fail(key, "%s holds %s", files[i].Path, s.what)
			return
		}
	}
	t.pass()
}

// lookInside searches the sandboxes of the tasks, as an agent could.
func (x *examination) lookInside() {
	t := x.tally("sandbox", "sandboxes of tasks show nothing that is hidden")
	if x.Visible == nil {
		t.Why = "there is no sandbox to look into"
		return
	}
	for _, k := range x.samples {
		var files []sdk.File
		if !x.call(func(ctx context.Context) (err error) {
			files, err = x.Visible(ctx, &k.task.Workspace)
			return err
		}, func(err error) { t.fail(k.task.Key, "make its sandbox: %v", err) }) {
			t.cut = x.stopped != ""
			continue
		}
		search(t, k.task.Key, secretsOf(k.task, k.record), files)
	}
}

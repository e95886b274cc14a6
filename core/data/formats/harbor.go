package formats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// harborFile is what makes a folder a Harbor task.
const harborFile = "task.toml"

// harborLimit is the most that the tests of one task may hold, in bytes.
const harborLimit = 32 << 20

// harborTask has the keys of task.toml that a record depends on; the file's text is kept
// as a whole.
type harborTask struct {
	Version  string `toml:"schema_version"`
	Legacy   string `toml:"version"`
	Steps    []any  `toml:"steps"`
	Task     struct{ Name string }
	Metadata map[string]any
	Verifier struct {
		Env             map[string]string
		EnvironmentMode string `toml:"environment_mode"`
	}
	Environment struct {
		Image   string `toml:"docker_image"`
		OS      string
		Workdir string
		Env     map[string]string
	}
}

// harborVersions are the layouts that are read.
var harborVersions = []string{"1.0", "1.1", "1.2", "1.3", "1.4"}

// harbor reads a task folder. Its tests become the test patch, under tests/; the
// command copies them to /tests, as Harbor does, and prints the reward in place of the
// tests' names. Refused by name are tasks of several steps, of several containers, for
// Windows, and with a verifier in a container of its own.
func harbor(dir string, d diffs) (*sdk.Record, *fault) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &fault{harborFile, err.Error()}
	}
	defer root.Close()
	text, bad := read(root, harborFile)
	if bad != nil {
		return nil, bad
	}
	var t harborTask
	if _, err := toml.Decode(text, &t); err != nil {
		var p toml.ParseError
		if errors.As(err, &p) {
			return nil, &fault{harborFile, fmt.Sprintf("line %d: %s", p.Position.Line, p.Message)}
		}
		return nil, &fault{harborFile, strings.TrimPrefix(err.Error(), "toml: ")}
	}
	version := t.Version
	if version == "" {
		version = t.Legacy
	}
	switch {
	case version != "" && !slices.Contains(harborVersions, version):
		return nil, &fault{"schema_version", fmt.Sprintf("%q is none of %s", version, strings.Join(harborVersions, ", "))}
	case len(t.Steps) > 0:
		return nil, &fault{"steps", "a task of several steps is no single record"}
	case t.Environment.OS != "" && t.Environment.OS != "linux":
		return nil, &fault{"environment.os", fmt.Sprintf("%q; sandboxes are Linux", t.Environment.OS)}
	case t.Verifier.EnvironmentMode == "separate":
		return nil, &fault{"verifier.environment_mode", "a verifier in a container of its own"}
	}
	for _, name := range []string{"docker-compose.yaml", "docker-compose.yml"} {
		if _, err := root.Lstat("environment/" + name); err == nil {
			return nil, &fault{"environment/" + name, "a task of several containers"}
		}
	}
	rec := &sdk.Record{ID: t.Task.Name, Source: "harbor", TestCommand: harborCommand(t.Verifier.Env), LogParser: "harbor"}
	if rec.ID == "" {
		rec.ID = filepath.Base(filepath.Clean(dir))
	}
	rec.Workspace = sdk.Workspace{Image: t.Environment.Image, Dir: t.Environment.Workdir}
	for k, v := range t.Environment.Env {
		rec.Workspace.Env = append(rec.Workspace.Env, k+"="+v)
	}
	slices.Sort(rec.Workspace.Env)
	problem, bad := read(root, "instruction.md")
	if bad != nil {
		return nil, bad
	}
	rec.Problem = problem
	rec.Meta = []sdk.Pair{{Key: harborFile, Value: text}}
	for _, name := range []string{"environment/Dockerfile", "solution/solve.sh"} {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		text, bad := read(root, name)
		if bad != nil {
			return nil, bad
		}
		rec.Meta = append(rec.Meta, sdk.Pair{Key: name, Value: text})
	}
	tests, bad := harborTests(root)
	if bad != nil {
		return nil, bad
	}
	rec.TestPatch = patch.Diff(func(string) ([]byte, bool) { return nil, false }, tests)
	rec.TestFiles = changed(d.of(rec.TestPatch))
	return rec, nil
}

// harborCommand runs the tests as the verifier's contract says, and prints the reward.
func harborCommand(env map[string]string) string {
	var b strings.Builder
	keys := make([]string, 0, len(env))
	for k := range env {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "export %s='%s'\n", k, strings.ReplaceAll(env[k], "'", `'\''`))
	}
	b.WriteString("rm -rf /tests /logs/verifier/reward.json /logs/verifier/reward.txt\nmkdir -p /logs/verifier\ncp -r tests /tests\n" +
		"bash /tests/test.sh\necho \"exit status $?\"\necho '>>>>> Reward'\ncat /logs/verifier/reward.json 2>/dev/null || cat /logs/verifier/reward.txt\n")
	return b.String()
}

// read reads a text file of a task. Links lead where they like within the task, and
// nowhere else.
func read(root *os.Root, name string) (string, *fault) {
	b, err := plainFile(root, name, harborLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := root.Lstat(name); err == nil {
			return "", &fault{name, "a link to nothing"}
		}
		return "", &fault{name, "missing"}
	case err != nil:
		return "", &fault{name, why(err)}
	case !utf8.Valid(b):
		return "", &fault{name, "not UTF-8"}
	}
	return string(b), nil
}

// plainFile reads a regular file of at most limit bytes.
func plainFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("no plain file")
	case info.Size() > limit:
		return nil, fmt.Errorf("more than %d MiB", limit>>20)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d MiB", limit>>20)
	}
	return b, err
}

// why is an error without its path, which the fault names.
func why(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

// harborTests lists what lies under tests, as files that are new in the workspace.
func harborTests(root *os.Root) ([]sdk.Change, *fault) {
	const folder = "tests"
	if info, err := root.Lstat(folder); err == nil && !info.IsDir() {
		return nil, &fault{folder, "no folder, but a link or a file"}
	}
	var out []sdk.Change
	var size int64
	var bad *fault
	err := fs.WalkDir(root.FS(), folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			bad = &fault{name, "a link or another special file"}
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > harborLimit {
			bad = &fault{folder, fmt.Sprintf("more than %d MiB", harborLimit>>20)}
			if info.Size() > harborLimit {
				bad.field = name
			}
			return fs.SkipAll
		}
		data, err := plainFile(root, name, harborLimit)
		if err != nil {
			return err
		}
		out = append(out, sdk.Change{Path: path.Clean(name), Data: data, Exec: info.Mode()&0o111 != 0})
		return nil
	})
	switch {
	case bad != nil:
		return nil, bad
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault{"tests", "missing"}
	case err != nil:
		return nil, &fault{"tests", err.Error()}
	case !slices.ContainsFunc(out, func(c sdk.Change) bool { return c.Path == "tests/test.sh" }):
		return nil, &fault{"tests/test.sh", "missing"}
	}
	return out, nil
}

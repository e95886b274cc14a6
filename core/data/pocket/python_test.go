package pocket

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// python is a Runner on this machine's own python3.
func python(ctx context.Context, script string, stdin []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "python3", "-I", "-S", "-c", script)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return out.Bytes(), nil
}

func generate(t testing.TB, o Options) []*Item {
	t.Helper()
	items, err := Generate(t.Context(), python, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(items) != o.Count {
		t.Fatalf("%d items, want %d", len(items), o.Count)
	}
	return items
}

// job is a folder of files and what to run in it: tests of modules or a script.
type job struct {
	Files  map[string]string `json:"files"`
	Script string            `json:"script"`
	Tests  []string          `json:"tests"`
}

// outcomeOf is what became of a job: a script's exit status, each test's status.
type outcomeOf struct {
	Exit  int               `json:"exit"`
	Tests map[string]string `json:"tests"`
}

// workshop runs jobs as real files with the real unittest, each in a forked child
// of one interpreter, since starting one for each takes ten times as long.
const workshop = `
import io, json, os, runpy, shutil, sys, tempfile, unittest

class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.seen = {}
    def addSuccess(self, test): self.seen[test.id()] = "ok"
    def addFailure(self, test, err): self.seen[test.id()] = "fail"
    def addError(self, test, err): self.seen[test.id()] = "error"

def child(job):
    for path, text in job["files"].items():
        with open(path, "w") as f:
            f.write(text)
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    if job["script"]:
        runpy.run_path(job["script"], run_name="__main__")
        return {"exit": 0}
    result = Result()
    unittest.defaultTestLoader.loadTestsFromNames(job["tests"]).run(result)
    return {"exit": 0, "tests": result.seen}

for line in sys.stdin:
    job = json.loads(line)
    folder = tempfile.mkdtemp()
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        try:
            answer = child(job)
        except BaseException as e:
            answer = {"exit": 1}
        os.write(w, json.dumps(answer).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        print(f.read())
    os.waitpid(pid, 0)
    shutil.rmtree(folder)
`

func work(t *testing.T, jobs []job) []outcomeOf {
	t.Helper()
	var in bytes.Buffer
	for _, j := range jobs {
		b, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	out, err := python(t.Context(), workshop, in.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var all []outcomeOf
	for line := range bytes.Lines(out) {
		var o outcomeOf
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	if len(all) != len(jobs) {
		t.Fatalf("%d answers for %d jobs", len(all), len(jobs))
	}
	return all
}

// tree is a record's files after diffs.
func tree(t *testing.T, r *sdk.Record, diffs ...string) map[string]string {
	t.Helper()
	files, err := patch.Tree(r.Workspace.Files, diffs...)
	if err != nil {
		t.Fatalf("%s: %v", r.ID, err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[f.Path] = string(f.Data)
	}
	return out
}

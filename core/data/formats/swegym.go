package formats

import (
	"regexp"
	"slices"
	"strings"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/swebench"
)

// gymRepositories are those of SWE-Gym, lower case: its rows have the columns of
// SWE-bench and name no image.
var gymRepositories = []string{
	"bokeh/bokeh", "conan-io/conan", "dask/dask", "facebookresearch/hydra", "getmoto/moto", "iterative/dvc",
	"modin-project/modin", "pandas-dev/pandas", "project-monai/monai", "pydantic/pydantic", "python/mypy",
}

func ofSWEGym(r *row) bool {
	v, _ := r.get("repo")
	return slices.Contains(gymRepositories, strings.ToLower(v.Text))
}

// activate enters the environment that the images of this family have.
const activate = "source /opt/miniconda3/bin/activate testbed\n"

// sweGym reads a row of SWE-Gym. Its images follow from the IDs; its tests are run by
// pytest wherever the test patch consists of Python files, and in mypy, whose tests stand
// in files of data, by the names of the cases that the test patch has. Which tests turn
// was read off the logs by the harness's rules, and so they are graded by these.
func sweGym(r *row) *sdk.Record {
	rec := common(r)
	rec.Source = "swegym"
	rec.Workspace.Image = "xingyaoww/sweb.eval.x86_64." + strings.ToLower(strings.ReplaceAll(rec.ID, "__", "_s_")) + ":latest"
	rec.TestCommand = pytest(rec.TestFiles)
	if strings.EqualFold(rec.Repo, "python/mypy") {
		rec.TestCommand = cases(rec.TestPatch)
	}
	if rec.LogParser == "" {
		rec.LogParser = harnessPytest
	}
	rec.Meta = r.keep()
	return rec
}

// harnessPytest is the harness's rule for the logs of pytest: names end at a blank, as
// they do in the lists of tests that were made by it.
const harnessPytest = "parse_log_pytest"

// pytest is the command that runs test files and names each test with its status; ""
// if there are none or some are not Python.
func pytest(files []string) string {
	if len(files) == 0 {
		return ""
	}
	var quoted []string
	for _, f := range files {
		if !strings.HasSuffix(f, ".py") {
			return ""
		}
		quoted = append(quoted, quote(f))
	}
	return marked("pytest -rA --color=no " + strings.Join(quoted, " "))
}

var mypyCase = regexp.MustCompile(`\[case ([A-Za-z0-9_.+:-]+)\]`)

// cases is the command that runs the test cases of mypy that a test patch names.
func cases(testPatch string) string {
	var names []string
	for _, m := range mypyCase.FindAllStringSubmatch(testPatch, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 {
		return ""
	}
	return marked("pytest -n0 -rA --color=no -k " + quote(strings.Join(names, " or ")))
}

// marked is a script that runs a command between the markers of the harness, whose status
// is noted.
func marked(command string) string {
	return swebench.EvalScript(activate + ": '" + swebench.StartMarker + "'\n" + command + "\n: '" + swebench.EndMarker + "'\n")
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

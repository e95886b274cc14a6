package formats

import (
	"slices"
	"strings"

	"github.com/valence-rl/valence/sdk"
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
// pytest wherever the test patch consists of Python files.
func sweGym(r *row) *sdk.Record {
	rec := common(r)
	rec.Source = "swegym"
	rec.Workspace.Image = "xingyaoww/sweb.eval.x86_64." + strings.ToLower(strings.ReplaceAll(rec.ID, "__", "_s_")) + ":latest"
	if rec.TestCommand = pytest(rec.TestFiles); rec.TestCommand != "" && rec.LogParser == "" {
		rec.LogParser = "pytest"
	}
	rec.Meta = r.keep()
	return rec
}

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
		quoted = append(quoted, "'"+strings.ReplaceAll(f, "'", `'\''`)+"'")
	}
	return activate + "pytest -rA --color=no " + strings.Join(quoted, " ") + "\n"
}

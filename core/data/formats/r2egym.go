package formats

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
)

// r2eOwners are the owners of the repositories that R2E-Gym names without one.
var r2eOwners = map[string]string{
	"aiohttp": "aio-libs/aiohttp", "bokeh": "bokeh/bokeh", "coveragepy": "nedbat/coveragepy", "datalad": "datalad/datalad",
	"mypy": "python/mypy", "numpy": "numpy/numpy", "orange3": "biolab/orange3", "pandas": "pandas-dev/pandas",
	"pillow": "python-pillow/pillow", "pyramid": "pylons/pyramid", "scrapy": "scrapy/scrapy", "statsmodels": "statsmodels/statsmodels",
	"sympy": "sympy/sympy", "tornado": "tornadoweb/tornado",
}

// commit is what R2E-Gym keeps of the commit that fixed the bug.
type commit struct {
	Old   string `json:"old_commit_hash"`
	Files []struct {
		Before string `json:"old_file_content"`
		After  string `json:"new_file_content"`
		Header struct {
			File struct {
				Path string `json:"path"`
			} `json:"file"`
		} `json:"header"`
		Binary bool  `json:"is_binary_file"`
		Minus  *name `json:"minus_file"` // of the line "---", where the row has it
		Plus   *name `json:"plus_file"`
	} `json:"file_diffs"`
}

type name struct {
	Path string `json:"path"`
}

// there says whether a file is there on one side of a diff: by the name on that side, or,
// where the row has none, by whether it holds anything.
func (n *name) there(content string) bool {
	if n == nil || n.Path == "" {
		return content != ""
	}
	return n.Path != "/dev/null"
}

// r2e reads a row of R2E-Gym. Gold and test patch are made from the contents of the
// files before and after the commit. Which tests turn is found by comparing the expected
// statuses with the log of the run before the commit; a row without that log has no
// fail-to-pass. The tests themselves lie in the image, and their command is not part of
// the row.
func r2e(r *row) *sdk.Record {
	name, after := r.need("repo_name"), r.need("commit_hash")
	rec := &sdk.Record{
		ID: name + "__" + after, Repo: name, BaseCommit: after, Source: "r2egym", Language: "python", Problem: r.text("problem_statement"),
		Workspace: sdk.Workspace{Image: r.need("docker_image"), Dir: testbed},
	}
	if full := r2eOwners[strings.ToLower(name)]; full != "" {
		rec.Repo = full
	}
	var c commit
	if err := json.Unmarshal(r.object("parsed_commit_content"), &c); err != nil {
		r.fail("parsed_commit_content", "%v", err)
	}
	if c.Old != "" {
		rec.BaseCommit = c.Old
	}
	rec.Patch, rec.TestPatch = c.patches(r)
	rec.TestFiles = changed(r.diffs.of(rec.TestPatch))
	expected := map[string]string{}
	if raw := r.object("expected_output_json"); len(raw) > 0 {
		if err := json.Unmarshal(raw, &expected); err != nil {
			r.fail("expected_output_json", "%v", err)
		}
	}
	var ran struct {
		Before string `json:"old_commit_res_stdout"`
	}
	if raw := r.object("execution_result_content"); len(raw) > 0 {
		if err := json.Unmarshal(raw, &ran); err != nil {
			r.fail("execution_result_content", "%v", err)
		}
	}
	before := summary(ran.Before)
	for _, test := range slices.Sorted(maps.Keys(expected)) {
		switch {
		case expected[test] != "PASSED":
		case len(before) > 0 && before[test] != "PASSED":
			rec.FailToPass = append(rec.FailToPass, test)
		default:
			rec.PassToPass = append(rec.PassToPass, test)
		}
	}
	rec.Meta = r.keep("commit_hash", "expected_output_json")
	return rec
}

// object gives the JSON of a column that is an object or a text that holds one.
func (r *row) object(name string) []byte {
	v, _ := r.get(name)
	if v.IsText() {
		return []byte(v.Text)
	}
	return v.JSON
}

// patches makes diffs of the files' contents: of the code, and of the tests.
func (c *commit) patches(r *row) (code, tests string) {
	before := map[string][]byte{}
	var changes []sdk.Change
	for _, f := range c.Files {
		p := f.Header.File.Path
		switch {
		case p == "":
			r.fail("parsed_commit_content", "a file without a path")
		case f.Binary:
			r.fail("parsed_commit_content", "%s: a binary file, whose contents the row does not have", p)
		case f.Before == f.After && f.Minus.there(f.Before) == f.Plus.there(f.After):
			continue // only its mode or its name changed, which the contents do not say
		}
		if f.Minus.there(f.Before) {
			before[p] = []byte(f.Before)
		}
		changes = append(changes, sdk.Change{Path: p, Data: []byte(f.After), Deleted: !f.Plus.there(f.After)})
	}
	read := func(p string) ([]byte, bool) { b, ok := before[p]; return bytes.Clone(b), ok }
	isTest := func(ch sdk.Change) bool { return grade.IsTest(ch.Path) }
	tests = patch.Diff(read, slices.DeleteFunc(slices.Clone(changes), func(ch sdk.Change) bool { return !isTest(ch) }))
	code = patch.Diff(read, slices.DeleteFunc(changes, isTest))
	if code == "" {
		r.fail("parsed_commit_content", "the commit changes no code")
	}
	return code, tests
}

var summaryLine = regexp.MustCompile(`^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+::.+?)(?: - .*)?$`)

// summary reads pytest's short summary with the data set's names of tests: the parts
// after the file, joined by dots.
func summary(log string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(log) {
		if m := summaryLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			_, test, _ := strings.Cut(m[2], "::")
			out[strings.ReplaceAll(test, "::", ".")] = m[1]
		}
	}
	return out
}

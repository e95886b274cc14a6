package formats

import (
	"path"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// sweSmith reads a row of SWE-smith. Its patch introduces the bug, so it belongs to the
// workspace, and the gold patch is the same turned round. Its repository is a mirror,
// swesmith/OWNER__NAME.COMMIT, which says where the code is from.
func sweSmith(r *row) *sdk.Record {
	bug, mirror := r.need("patch"), r.need("repo")
	rec := &sdk.Record{
		ID: r.need("instance_id"), Repo: mirror, Source: "swesmith", Problem: r.text("problem_statement"),
		FailToPass: r.list("FAIL_TO_PASS"), PassToPass: r.list("PASS_TO_PASS"), Language: language(r.diffs.of(bug)),
		Workspace: sdk.Workspace{Image: r.need("image_name"), Dir: testbed, Patches: []string{bug}},
	}
	if owner, name, commit, ok := origin(mirror); ok {
		rec.Repo, rec.BaseCommit = owner+"/"+name, commit
	}
	gold, err := patch.Reverse(bug)
	if err != nil {
		r.fail("patch", "%s", plainly(err))
	}
	rec.Patch = gold
	if rec.Language == "python" {
		for _, id := range slices.Concat(rec.FailToPass, rec.PassToPass) {
			file, _, ok := strings.Cut(id, "::")
			if file = path.Clean(file); ok && !slices.Contains(rec.TestFiles, file) {
				rec.TestFiles = append(rec.TestFiles, file)
			}
		}
		if rec.TestCommand = pytest(rec.TestFiles); rec.TestCommand != "" {
			rec.LogParser = harnessPytest
		}
	}
	rec.Meta = r.keep("repo")
	return rec
}

// origin reads the name of a mirror: swesmith/oauthlib__oauthlib.1fd52536.
func origin(mirror string) (owner, name, commit string, ok bool) {
	_, last, _ := strings.Cut(mirror, "/")
	if last == "" {
		last = mirror
	}
	dot := strings.LastIndexByte(last, '.')
	if dot < 0 {
		return "", "", "", false
	}
	owner, name, ok = strings.Cut(last[:dot], "__")
	return owner, name, last[dot+1:], ok && owner != "" && name != ""
}

package formats

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/sdk"
)

// names is what the fields of a record that are looked at are called in a row.
type names struct{ id, patch, testPatch, workspace string }

// sound refuses a record that no skill could use rightly: an ID that cannot be printed,
// text that is no Unicode or holds a NUL where none may be, diffs and files that cannot
// be laid down in a workspace. seen is what its diffs were found to be so far. It gives nil for a sound one.
func sound(r *sdk.Record, in names, seen diffs) *fault {
	for _, f := range []struct{ field, text string }{
		{in.id, r.ID}, {"repo", r.Repo}, {"base_commit", r.BaseCommit}, {"image", r.Workspace.Image}, {"log_parser", r.LogParser},
	} {
		if i := strings.IndexFunc(f.text, func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 || len(f.text) > 1024 {
			return &fault{f.field, "a control character, or more than 1024 bytes"}
		}
	}
	if field := unclean(reflect.ValueOf(r).Elem(), ""); field != "" {
		return &fault{field, "not UTF-8"}
	}
	for _, list := range [][]string{r.FailToPass, r.PassToPass, r.TestFiles, {r.TestCommand}, r.Workspace.Env} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return &fault{"tests", "a NUL in a test's name or in a command"}
			}
		}
	}
	if d := r.Workspace.Dir; d != "" && (!path.IsAbs(d) || path.Clean(d) != d || d == "/") {
		return &fault{"workdir", d + " is no absolute folder"}
	}
	for _, d := range []struct{ field, diff string }{{in.patch, r.Patch}, {in.testPatch, r.TestPatch}} {
		if _, err := seen.inspect(d.diff); err != nil {
			return &fault{d.field, plainly(err)}
		}
	}
	for _, d := range r.Workspace.Patches {
		if _, err := seen.inspect(d); err != nil {
			return &fault{in.workspace, plainly(err)}
		}
	}
	for i, c := range r.Candidates {
		if _, err := seen.inspect(c.Patch); err != nil {
			return &fault{fmt.Sprintf("Candidates[%d]", i), plainly(err)}
		}
	}
	for i, m := range r.Mutants {
		if err := patch.CheckTree(m.Files); err != nil {
			return &fault{fmt.Sprintf("Mutants[%d]", i), plainly(err)}
		}
	}
	if f := paths(r); f != nil {
		return f
	}
	if err := patch.CheckTree(r.Workspace.Files); err != nil {
		return &fault{"files", plainly(err)}
	}
	return nil
}

// paths refuses what names a file outside of the workspace.
func paths(r *sdk.Record) *fault {
	check := func(field, p string) *fault {
		if err := patch.CheckTree([]sdk.File{{Path: p}}); err != nil {
			return &fault{field, plainly(err)}
		}
		return nil
	}
	for i, p := range r.TestFiles {
		if f := check(fmt.Sprintf("TestFiles[%d]", i), p); f != nil {
			return f
		}
	}
	for i, t := range r.Targets {
		if f := check(fmt.Sprintf("Targets[%d]", i), t.Path); f != nil {
			return f
		}
	}
	if r.UnitTestFile != "" {
		return check("UnitTestFile", r.UnitTestFile)
	}
	return nil
}

// plainly is an error without what was being done.
func plainly(err error) string {
	var e *diag.Error
	if errors.As(err, &e) && e.Err != nil {
		if e.Subject != "" {
			return e.Subject + ": " + e.Err.Error()
		}
		return e.Err.Error()
	}
	return err.Error()
}

// unclean names the first field that holds a text that is no UTF-8.
func unclean(v reflect.Value, name string) string {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return name
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n := v.Type().Field(i).Name
			if name != "" {
				n = name + "." + n
			}
			if bad := unclean(v.Field(i), n); bad != "" {
				return bad
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return ""
		}
		for i := range v.Len() {
			if bad := unclean(v.Index(i), name); bad != "" {
				return bad
			}
		}
	}
	return ""
}

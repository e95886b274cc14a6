package patch

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/hostile"
	"github.com/valence-rl/valence/sdk"
)

// refusal holds an error to what the corpus says of it.
func refusal(t *testing.T, how string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", how, err)
	case want != "" && (diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: want a refusal with %q, got %v", how, want, err)
	}
}

// at reads a tree as Over does.
func at(tree []sdk.Change) func(string) (sdk.Change, error) {
	return func(p string) (sdk.Change, error) {
		for _, c := range tree {
			if c.Path == p {
				return c, nil
			}
			if c.Symlink != "" && strings.HasPrefix(p, c.Path+"/") {
				return sdk.Change{}, diag.Errorf(diag.KindData, "", "", "%s is a symbolic link", c.Path)
			}
			if strings.HasPrefix(p, c.Path+"/") {
				return sdk.Change{}, diag.Errorf(diag.KindData, "", "", "%s is a file", c.Path)
			}
			if strings.HasPrefix(c.Path, p+"/") {
				return sdk.Change{}, diag.Errorf(diag.KindData, "", "", "it is a folder")
			}
		}
		return sdk.Change{}, fs.ErrNotExist
	}
}

func TestHostileDiffs(t *testing.T) {
	for _, d := range hostile.Diffs() {
		t.Run(d.Name, func(t *testing.T) {
			_, err := Inspect(d.Text)
			refusal(t, "inspect", err, d.Never)
			want := d.Never + d.Here
			got, err := Over(at(d.Before), nil, d.Text)
			refusal(t, "over", err, want)
			if err == nil && want == "" && !hostile.Equal(d.After, got) {
				t.Errorf("over: want %s\ngot %s", hostile.Brief(d.After), hostile.Brief(got))
			}
			for _, c := range d.After {
				if c.Symlink != "" && want == "" {
					want = "symbolic link" // a file of a workspace is none
				}
			}
			if len(d.Files()) == len(d.Before) {
				_, err = Tree(d.Files(), d.Text)
				refusal(t, "tree", err, want)
			}
			if d.Never+d.Here == "" {
				back(t, &d)
			}
		})
	}
}

// back turns a diff round and goes the way back.
func back(t *testing.T, d *hostile.Diff) {
	t.Helper()
	text, err := Reverse(d.Text)
	if err != nil {
		if !strings.Contains(err.Error(), "cannot be turned round") {
			t.Errorf("reverse: %v", err)
		}
		return
	}
	now := map[string]sdk.Change{}
	for _, c := range append(append([]sdk.Change{}, d.Before...), d.After...) {
		now[c.Path] = c
	}
	read := func(p string) (sdk.Change, error) {
		if c, ok := now[p]; ok && !c.Deleted {
			return c, nil
		}
		return sdk.Change{}, fs.ErrNotExist
	}
	changes, err := Over(read, nil, text)
	if err != nil {
		t.Errorf("the way back: %v\n%.300s", err, text)
		return
	}
	for _, c := range changes {
		now[c.Path] = c
	}
	for _, c := range d.Before {
		if was, is := []sdk.Change{c}, []sdk.Change{now[c.Path]}; !hostile.Equal(was, is) {
			t.Errorf("the way back: want %s\ngot %s\nby %.300s", hostile.Brief(was), hostile.Brief(is), text)
		}
		delete(now, c.Path)
	}
	for _, c := range now {
		if !c.Deleted {
			t.Errorf("the way back leaves %q\n%.300s", c.Path, text)
		}
	}
}

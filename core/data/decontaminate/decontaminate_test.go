package decontaminate

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/data/suites"
	"github.com/valence-rl/valence/sdk"
)

func TestRepository(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"django/django", "github.com/django/django"},
		{" Django/Django.git ", "github.com/django/django"},
		{"https://GitHub.com/Django/django", "github.com/django/django"},
		{"https://www.github.com/django/django.git/", "github.com/django/django"},
		{"https://user:secret@github.com/django/django", "github.com/django/django"},
		{"http://github.com/django/django/tree/main/django", "github.com/django/django"},
		{"https://github.com/django/django/pull/1?x=y#z", "github.com/django/django"},
		{"git+https://github.com/django/django.git", "github.com/django/django"},
		{"git://github.com/django/django", "github.com/django/django"},
		{"ssh://git@github.com:22/django/django.git", "github.com/django/django"},
		{"ssh://git@ssh.github.com:443/django/django.git", "github.com/django/django"},
		{"git@github.com:Django/django.git", "github.com/django/django"},
		{"github.com:django/django", "github.com/django/django"},
		{"github.com/django/django", "github.com/django/django"},
		{"https://api.github.com/repos/django/django", "github.com/django/django"},
		{"swesmith/django__django.1fd52536", "github.com/django/django"},
		{"swesmith/oauthlib__oauthlib.1fd52536", "github.com/oauthlib/oauthlib"},
		{"acme/under__score", "github.com/acme/under__score"},
		{"https://gitlab.com/group/sub/name/-/merge_requests/1", "gitlab.com/group/sub/name"},
		{"git@gitlab.example.org:2222/group/name", "gitlab.example.org/2222/group/name"},
		{"prometheus/prometheus", "github.com/prometheus/prometheus"},
		{"mrdoob/three.js", "github.com/mrdoob/three.js"},
		{"/srv/git/shop.git", "/srv/git/shop"},
		{"file:///srv/git/shop.git/", "/srv/git/shop"},
		{"./shop", "./shop"},
		{`C:\src\shop`, `c:\src\shop`},
		{"pocket-shop", "pocket-shop"},
		{"", ""},
	} {
		if got := Repository(c.in); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// A name is its own name, and no way to write an address makes another one of it.
func TestRepositoryIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9-]{0,8}`)
		owner, name := part.Draw(t, "owner"), part.Draw(t, "name")
		want := "github.com/" + strings.ToLower(owner+"/"+name)
		for _, form := range []string{"%", "https://github.com/%", "https://github.com/%.git", "git@github.com:%.git", "ssh://git@github.com/%", "github.com/%", "https://github.com/%/issues/7"} {
			got := Repository(strings.Replace(form, "%", owner+"/"+name, 1))
			if got != want || Repository(got) != got {
				t.Fatalf("%s gives %q, and that %q; want %q", form, got, Repository(got), want)
			}
		}
	})
}

func FuzzRepository(f *testing.F) {
	f.Add("git@github.com:a/b.git")
	f.Add("http://[::1]:x/%zz")
	f.Fuzz(func(t *testing.T, s string) { Repository(s) })
}

const commit = "02c356f2f3945b8075735d485c3cf48cad991011"

func TestMatch(t *testing.T) {
	a := New()
	s, _ := suites.Named("swebench")
	a.AddSuite(s)
	a.AddRecord("ours", &sdk.Record{Repo: "acme/shop", BaseCommit: strings.ToUpper(commit), Meta: []sdk.Pair{{Key: RootCommitKey, Value: "aaaaaaaaaa"}, {Key: "commit_hash", Value: "bbbbbbbbbb"}}})
	a.AddCommit("cut", "cccccccccc")
	for _, c := range []struct {
		name string
		rec  sdk.Record
		want Why
	}{
		{"repository", sdk.Record{Repo: "git@github.com:Django/Django.git"}, Why{SameRepository, "github.com/django/django", "swebench"}},
		{"mirror", sdk.Record{Repo: "swesmith/sympy__sympy.12345678"}, Why{SameRepository, "github.com/sympy/sympy", "swebench"}},
		{"commit elsewhere", sdk.Record{Repo: "me/x", BaseCommit: commit}, Why{SameCommit, commit, "ours"}},
		{"cut commit", sdk.Record{Repo: "me/x", BaseCommit: commit[:8]}, Why{SameCommit, commit, "ours"}},
		{"whole commit of a cut one", sdk.Record{Repo: "me/x", BaseCommit: "ccccccccccdddddddddddddddddddddddddddddd"}, Why{SameCommit, "cccccccccc", "cut"}},
		{"commit that fixes", sdk.Record{Repo: "me/x", Meta: []sdk.Pair{{Key: "fix_commit", Value: "bbbbbbbbbbbb"}}}, Why{SameCommit, "bbbbbbbbbb", "ours"}},
		{"fork", sdk.Record{Repo: "me/x", Meta: []sdk.Pair{{Key: RootCommitKey, Value: "AAAAAAAAAA"}}}, Why{SameRoot, "github.com/me/x", "ours"}},
		{"too short to be told", sdk.Record{Repo: "me/x", BaseCommit: commit[:6]}, Why{}},
		{"other", sdk.Record{Repo: "me/django", BaseCommit: "dddddddddd"}, Why{}},
		{"nothing known", sdk.Record{}, Why{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := a.Match(&c.rec); got != c.want || ok != (c.want != Why{}) {
				t.Errorf("%+v, %t; want %+v", got, ok, c.want)
			}
		})
	}
	v := NewSieve(a)
	for _, r := range []sdk.Record{{ID: "1", Repo: "django/django"}, {ID: "2", Repo: "django/django"}, {ID: "3", Repo: "me/django"}, {ID: "4", Repo: "me/x"}} {
		if v.Keep(&r) != (r.ID > "2") {
			t.Errorf("record %s", r.ID)
		}
	}
	r := v.Report()
	if r.Records != 4 || r.Dropped != 2 || len(r.Reasons) != 1 || r.Reasons[0].Records != 2 || strings.Join(r.Suites, " ") != "swebench ours cut" ||
		len(r.Namesakes) != 1 || r.Namesakes[0] != (Namesake{"me/django", "github.com/django/django", 1}) {
		t.Errorf("%+v", r)
	}
}

// Package decontaminate keeps what is measured out of what is trained on (ALGORITHMS 8,
// after the paper's appendix C.1): a training record goes if its repository, a fork of
// it, or its commit is one of a suite.
package decontaminate

import (
	"strings"

	"github.com/valence-rl/valence/core/data/suites"
	"github.com/valence-rl/valence/sdk"
)

// RootCommitKey is the Meta key of the first commit of a record's repository, by which
// forks are known.
const RootCommitKey = "root_commit"

// commitKeys are the Meta keys of further commits of a record.
var commitKeys = []string{"commit_hash", "fix_commit", "environment_setup_commit"}

// Against is what is measured: repositories, first commits and commits, each with the
// suite that it is of. Add before the first [Against.Match]; Match is safe for
// concurrent use.
type Against struct {
	repositories map[string]string
	roots        map[string]string
	commits      map[string]string            // whole
	starts       map[string]map[string]string // the first 7 digits → commits, whole or cut
	names        map[string]string            // last parts of repositories
	suites       []string
}

// New gives an Against that matches nothing.
func New() *Against {
	return &Against{repositories: map[string]string{}, roots: map[string]string{}, commits: map[string]string{}, starts: map[string]map[string]string{}, names: map[string]string{}}
}

// Suites lists what was added, in its order, each name once.
func (a *Against) Suites() []string { return a.suites }

func (a *Against) note(suite string) {
	for _, s := range a.suites {
		if s == suite {
			return
		}
	}
	a.suites = append(a.suites, suite)
}

// AddSuite adds the repositories of a public suite.
func (a *Against) AddSuite(s suites.Suite) {
	for _, r := range s.Repositories {
		a.AddRepository(s.Name, r)
	}
}

// AddRepository adds a repository, however its address is written.
func (a *Against) AddRepository(suite, address string) {
	r := Repository(address)
	if r == "" {
		return
	}
	a.note(suite)
	keep(a.repositories, r, suite)
	keep(a.names, name(r), r)
}

// AddCommit adds a commit by its id or by the first 7 digits or more of it.
func (a *Against) AddCommit(suite, id string) {
	c := commitOf(id)
	if c == "" {
		return
	}
	a.note(suite)
	keep(a.commits, c, suite)
	start := c[:7]
	if a.starts[start] == nil {
		a.starts[start] = map[string]string{}
	}
	keep(a.starts[start], c, suite)
}

// AddRecord adds the repository and the commits of a record that is measured.
func (a *Against) AddRecord(suite string, r *sdk.Record) {
	a.note(suite)
	a.AddRepository(suite, r.Repo)
	a.AddCommit(suite, r.BaseCommit)
	for _, c := range further(r) {
		a.AddCommit(suite, c)
	}
	if root := commitOf(meta(r, RootCommitKey)); root != "" {
		keep(a.roots, root, suite)
	}
}

func keep(m map[string]string, key, value string) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}

func meta(r *sdk.Record, key string) string {
	for _, p := range r.Meta {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

func further(r *sdk.Record) (out []string) {
	for _, p := range r.Meta {
		for _, k := range commitKeys {
			if p.Key == k {
				out = append(out, p.Value)
			}
		}
	}
	return out
}

// Why says what a record shares with a suite.
type Why struct {
	Kind  string `json:"kind"`  // one of the constants below
	What  string `json:"what"`  // the repository or commit
	Suite string `json:"suite"` // whose it is
}

// The kinds of Why.
const (
	SameRepository = "repository"
	SameRoot       = "fork"   // another name, the same first commit
	SameCommit     = "commit" // whatever the repository is called
)

// Match says why a record must not be trained on, and whether there is a reason.
func (a *Against) Match(r *sdk.Record) (Why, bool) {
	repository := Repository(r.Repo)
	if s, ok := a.repositories[repository]; ok && repository != "" {
		return Why{SameRepository, repository, s}, true
	}
	root := commitOf(meta(r, RootCommitKey))
	if s, ok := a.roots[root]; ok && root != "" {
		return Why{SameRoot, repository, s}, true
	}
	for _, id := range append([]string{r.BaseCommit}, further(r)...) {
		c := commitOf(id)
		if c == "" {
			continue
		}
		if s, ok := a.commits[c]; ok {
			return Why{SameCommit, c, s}, true
		}
		for whole, s := range a.starts[c[:7]] {
			if strings.HasPrefix(whole, c) || strings.HasPrefix(c, whole) {
				return Why{SameCommit, whole, s}, true
			}
		}
	}
	return Why{}, false
}

// Namesake gives the repository of a suite that is called like a record's but has
// another owner: perhaps a fork, which only a first commit could tell.
func (a *Against) Namesake(r *sdk.Record) (string, bool) {
	repository := Repository(r.Repo)
	of, ok := a.names[name(repository)]
	return of, ok && repository != "" && of != repository
}

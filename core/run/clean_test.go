package run

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/data/suites"
	"github.com/valence-rl/valence/sdk"
)

// recordsFile writes a records file.
func recordsFile(t *testing.T, recs ...sdk.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, _, err := records.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if err := w.Append(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return path
}

// opened reads the sources of a configuration for one skill, as [Open] does.
func opened(t *testing.T, cfg *config.Config) (s *Setup, k *Skill, events []Event, err error) {
	t.Helper()
	k = newSkill(&Binding{Skill: "editing"}, 1)
	s = &Setup{Config: cfg, Skills: []*Skill{k}, log: slog.New(slog.DiscardHandler), observe: func(e Event) { events = append(events, e) }}
	drawn := make([][]record, len(cfg.Sources))
	for i := range cfg.Sources {
		if drawn[i], err = s.read(t.Context(), &cfg.Sources[i]); err != nil {
			return s, k, events, err
		}
	}
	if err := s.decontaminate(t.Context(), drawn); err != nil {
		return s, k, events, err
	}
	for i := range cfg.Sources {
		s.serve(&cfg.Sources[i], drawn[i])
	}
	return s, k, events, nil
}

func idsOf(rs []record) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

// What is measured is not trained on, by default and whatever it is named by.
func TestTrainingIsDecontaminated(t *testing.T) {
	train := recordsFile(t, sdk.Record{ID: "clean", Repo: "acme/shop"}, sdk.Record{ID: "public", Repo: "https://github.com/Django/django.git"},
		sdk.Record{ID: "ours", Repo: "acme/bank"}, sdk.Record{ID: "moved", Repo: "me/else", BaseCommit: "0123456789abcdef"}, sdk.Record{ID: "listed", Repo: "acme/list"},
		sdk.Record{ID: "multi", Repo: "redis/redis"})
	eval := recordsFile(t, sdk.Record{ID: "e", Repo: "git@github.com:acme/bank.git", BaseCommit: "0123456789abcdef0123456789abcdef01234567"})
	list := filepath.Join(t.TempDir(), "list.txt")
	os.WriteFile(list, []byte("acme/list # ours\n"), 0o644)
	sources := []config.Source{{Kind: "records", Path: train, Split: "train", Use: "train"}, {Kind: "records", Path: eval, Split: "eval", Use: "eval"}}
	for _, c := range []struct {
		name    string
		keys    config.Decontaminate
		want    string
		dropped int
	}{
		{"default", config.Decontaminate{}, "clean listed", 4},
		{"a list", config.Decontaminate{Files: []string{list}}, "clean", 5},
		{"one suite", config.Decontaminate{Suites: []string{"swebench"}}, "clean listed multi", 3},
		{"no suite", config.Decontaminate{Suites: []string{}}, "clean public listed multi", 2},
		{"off", config.Decontaminate{Off: true}, "clean public ours moved listed multi", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k, events, err := opened(t, &config.Config{Sources: sources, Decontaminate: c.keys})
			if err != nil {
				t.Fatal(err)
			}
			if got := idsOf(k.records); got != c.want || s.cleaned.Dropped != c.dropped || idsOf(k.held["eval"]) != "e" {
				t.Errorf("trains on %q, want %q; %+v", got, c.want, s.cleaned)
			}
			if len(events) != 1 || events[0].Kind != map[bool]EventKind{false: Cleaned, true: Warned}[c.keys.Off] || s.cleaned.Off != c.keys.Off {
				t.Errorf("said %+v", events)
			}
		})
	}
}

// The two parts of one file share no repository, and are the file together.
func TestHoldout(t *testing.T) {
	var recs []sdk.Record
	for i := range 200 {
		recs = append(recs, sdk.Record{ID: fmt.Sprint(i), Repo: fmt.Sprintf("acme/r%d", i%40)})
	}
	path := recordsFile(t, recs...)
	src := func(split string, count int) config.Source {
		return config.Source{Kind: "records", Path: path, Split: split, Holdout: 0.3, Count: count}
	}
	_, k, _, err := opened(t, &config.Config{Sources: []config.Source{src("train", 0), src("eval", 0)}})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, r := range k.held["eval"] {
		held[r.Repo] = true
	}
	for _, r := range k.records {
		if held[r.Repo] {
			t.Errorf("%s is in both", r.Repo)
		}
	}
	if n := len(k.records) + len(k.held["eval"]); n != 200 || len(held) < 6 || len(held) > 18 {
		t.Errorf("%d records, %d of 40 repositories held out", n, len(held))
	}
	_, k, _, err = opened(t, &config.Config{Sources: []config.Source{src("train", 7)}})
	if err != nil || len(k.records) != 7 {
		t.Errorf("%d records, error %v", len(k.records), err)
	}
	one := recordsFile(t, sdk.Record{ID: "a", Repo: "acme/only"})
	_, _, _, err = opened(t, &config.Config{Sources: []config.Source{{Kind: "records", Path: one, Split: "train", Holdout: 0.5}, {Kind: "records", Path: one, Split: "eval", Holdout: 0.5}}})
	if err == nil || !strings.Contains(err.Error(), "repositories are held out as a whole") {
		t.Errorf("error %v", err)
	}
}

// The words of the configuration are the suites that there are.
func TestSuitesOfTheConfiguration(t *testing.T) {
	f, _ := reflect.TypeFor[config.Decontaminate]().FieldByName("Suites")
	if want := strings.Join(suites.Names(), "|"); f.Tag.Get("enum") != want {
		t.Errorf("[decontaminate] suites takes %s, there are %s", f.Tag.Get("enum"), want)
	}
}

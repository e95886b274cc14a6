package intake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/data/formats"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/diag"
)

const patch = `--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+2\n`

func row(id string) string {
	return fmt.Sprintf(`{"instance_id":%q,"repo":"acme/shop","base_commit":"c","patch":"%s","test_patch":"","problem_statement":"p","FAIL_TO_PASS":["t"],"PASS_TO_PASS":"[]"}`, id, patch)
}

// mixed is a data set in two files, with rows that are bad, repeated and blank.
func mixed(t testing.TB) (dir string, rows int) {
	dir = t.TempDir()
	var a, b []string
	for i := range 120 {
		a = append(a, row(fmt.Sprint("a", i)))
		switch i % 20 {
		case 3:
			a = append(a, "no JSON")
		case 7:
			a = append(a, "")
		case 11:
			a = append(a, row("a0"))
		case 13:
			a = append(a, strings.Replace(row("bad"), `"patch":"`, `"patch":"prose`, 1))
		}
		b = append(b, row(fmt.Sprint("b", i)))
	}
	os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(strings.Join(a, "\r\n")), 0o644)
	os.WriteFile(filepath.Join(dir, "b.json"), []byte("["+strings.Join(b, ",\n")+"]"), 0o644)
	return dir, len(a) - 6 + len(b)
}

func TestRun(t *testing.T) {
	dir, rows := mixed(t)
	out := filepath.Join(t.TempDir(), "r.jsonl.zst")
	s, err := Run(t.Context(), Options{Sources: []string{dir}, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != int64(rows) || s.Records != 240 || s.Repeated != 6 || s.Bad != 12 || s.Reasons["row"] != 6 || s.Reasons["patch"] != 6 || s.Formats["swebench"] != 240 || s.Lost != 0 {
		t.Errorf("%+v of %d rows", s, rows)
	}
	recs, err := records.Read(out)
	if err != nil || len(recs) != 240 || recs[0].ID != "a0" || recs[239].ID != "b119" {
		t.Errorf("%d records, error %v", len(recs), err)
	}
	if _, err := Run(t.Context(), Options{Sources: []string{dir}, Out: out}); diag.KindOf(err) != diag.KindConfig || !strings.Contains(err.Error(), "already") {
		t.Errorf("error %v", err)
	}
	if _, err := Run(t.Context(), Options{Sources: []string{dir}, Out: out, Replace: true}); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Stopped anywhere, as often as you like, an intake ends with the same file and counts.
func TestStoppedAnywhere(t *testing.T) {
	dir, rows := mixed(t)
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	want, err := Run(t.Context(), Options{Sources: []string{dir}, Out: whole})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(whole)
	base, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		out := filepath.Join(base, fmt.Sprint(n), "r.jsonl")
		for {
			ctx, stop := context.WithCancel(t.Context())
			left := rapid.IntRange(1, rows).Draw(rt, "rows before the stop")
			s, err := Run(ctx, Options{Sources: []string{dir}, Out: out, Every: 20 * time.Millisecond, Each: func(Progress) {
				if left--; left == 0 {
					stop()
				}
			}})
			stop()
			if errors.Is(err, context.Canceled) {
				continue
			}
			if err != nil {
				rt.Fatalf("%v", err)
			}
			got, _ := os.ReadFile(out)
			if string(got) != string(text) || s.Rows != want.Rows || s.Records != want.Records || s.Bad != want.Bad || s.Repeated != want.Repeated {
				rt.Fatalf("%+v, want %+v; the same bytes: %t", s, want, string(got) == string(text))
			}
			return
		}
	})
}

// What was begun with other sources is not gone on with.
func TestOtherSources(t *testing.T) {
	dir, _ := mixed(t)
	out := filepath.Join(t.TempDir(), "r.jsonl")
	ctx, stop := context.WithCancel(t.Context())
	if _, err := Run(ctx, Options{Sources: []string{dir}, Out: out, Each: func(Progress) { stop() }}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), Options{Sources: []string{filepath.Join(dir, "b.json")}, Out: out})
	if err != nil || s.Resumed != 0 || s.Records != 120 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestNothing(t *testing.T) {
	p := filepath.Join(t.TempDir(), "a.jsonl")
	os.WriteFile(p, []byte("{\"x\":1}\n"), 0o644)
	out := filepath.Join(t.TempDir(), "r.jsonl")
	var said *formats.Bad
	s, err := Run(t.Context(), Options{Sources: []string{p}, Out: out, Each: func(e Progress) { said = e.Bad }})
	if diag.KindOf(err) != diag.KindData || s.Lost != 1 || said == nil || !strings.Contains(said.Error(), "the columns x are those of no format that is known") {
		t.Errorf("%+v, %v, %v", s, err, said)
	}
	if left, _ := filepath.Glob(out + "*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/grade"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// changes is a recorded answer; each change has path, old and new of its edits.
func changes(t *testing.T, list ...[]string) string {
	t.Helper()
	type item struct {
		Path string `json:"path"`
		Old  string `json:"old"`
		New  string `json:"new"`
	}
	type candidate struct {
		Edits []item `json:"edits"`
	}
	cs := []candidate{}
	for _, c := range list {
		edits := []item{}
		for i := 0; i < len(c); i += 3 {
			edits = append(edits, item{c[i], c[i+1], c[i+2]})
		}
		cs = append(cs, candidate{edits})
	}
	b, err := json.Marshal(map[string]any{"candidates": cs})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// model answers with recorded texts in order, the last one for ever.
func model(asked *[]sdk.ModelRequest, texts ...string) *sdktest.Host {
	return &sdktest.Host{Answer: func(r *sdk.ModelRequest) (*sdk.ModelResponse, error) {
		*asked = append(*asked, *r)
		t := texts[min(len(*asked), len(texts))-1]
		if t == "" {
			return nil, errors.New("ask model: m: no connection")
		}
		return &sdk.ModelResponse{Texts: []string{t}}, nil
	}}
}

func TestCandidatesByAModel(t *testing.T) {
	const wrong = "min(low, min(x, high))" // what the issue is about
	right, wide := []string{"shop.py", wrong, "max(low, min(x, high))"}, []string{"shop.py", wrong, "max(low, max(x, high))"}
	both := changes(t, right, wide)
	for _, tt := range []struct {
		name    string
		from    string
		correct bool // the label wanted
		change  func(*sdk.Record)
		texts   []string
		asked   int
		code    string // of the candidate
		skip    string
		err     string
	}{
		{name: "a right one", from: "model", correct: true, texts: []string{both}, asked: 1, code: "+    return max(low, min(x, high))\n"},
		{name: "a wrong one", from: "model", texts: []string{both}, asked: 1, code: "+    return max(low, max(x, high))\n"},
		{name: "only right ones", from: "model", texts: []string{changes(t, right, right)}, asked: 1, skip: "no candidate with the label NO"},
		{name: "second try", from: "model", correct: true, texts: []string{"Sure:", both}, asked: 2, code: "+    return max(low, min(x, high))\n"},
		{name: "no form", from: "model", correct: true, texts: []string{"Sure:"}, asked: 2, skip: "the model gave no usable answer"},
		{name: "no form, but a record", from: "both", correct: true, texts: []string{"Sure:"}, asked: 2, code: "+"},
		{name: "nothing that fits", from: "model", texts: []string{changes(t, []string{"shop.py", "x", "y"}, []string{"shop.py", "absent", "y"}, []string{"other.py", "a", "b"}, nil)}, asked: 1,
			skip: "none of 4 changes by the model fits into the code"},
		{name: "there and back", from: "model", texts: []string{changes(t, append([]string{"shop.py", "max(low, min(x, high))", wrong}, right...), []string{"shop.py", wrong, "0", "shop.py", "return 0", "return " + wrong})}, asked: 1, skip: "none of 2 changes"},
		{name: "too many", from: "model", texts: []string{changes(t, right, right, right, right, wide)}, asked: 1, skip: "label NO"},
		{name: "record", from: "record", correct: true, texts: []string{""}, code: "+"},
		{name: "out of reach", from: "both", texts: []string{""}, asked: 1, err: "no connection"},
		{name: "no tests", from: "model", change: func(r *sdk.Record) { r.FailToPass = nil }, texts: []string{both}, skip: "no tests that tell a solution"},
		{name: "tests that fail", from: "model", change: func(r *sdk.Record) { r.FailToPass = append(r.FailToPass, "test_shop.T.test_none") }, texts: []string{both}, skip: "the tests do not pass with the gold patch"},
		{name: "an image", from: "model", change: func(r *sdk.Record) { r.Workspace.Files = nil }, texts: []string{both}, skip: "not listed"},
		{name: "a long file", from: "model", change: func(r *sdk.Record) {
			r.Workspace.Files[0].Data = append(r.Workspace.Files[0].Data, make([]byte, codeLimit)...)
		}, texts: []string{both}, skip: "shop.py is too long"},
		{name: "elsewhere", from: "web", err: `candidates_from: "web" is none of record, model, both`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := sdktest.Records()[0]
			if tt.change != nil {
				tt.change(&rec)
			}
			seed := uint64(0)
			for (grade.Hash(seed, "label", rec.ID)&1 == 1) != tt.correct {
				seed++
			}
			var asked []sdk.ModelRequest
			h := model(&asked, tt.texts...)
			b, err := sdktest.Build(t.Context(), skill{}, h, &sdk.BuildRequest{Record: rec, Seed: seed, Config: []sdk.Pair{{Key: "candidates_from", Value: tt.from}}})
			if len(asked) != tt.asked {
				t.Errorf("asked %d times, want %d", len(asked), tt.asked)
			}
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%+v, error %v, want %q", b, err, tt.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			case tt.skip != "":
				if len(b.Tasks) != 0 || !strings.Contains(b.Skipped, tt.skip) {
					t.Errorf("%d tasks, skipped %q, want %q", len(b.Tasks), b.Skipped, tt.skip)
				}
				return
			}
			hidden, err := grade.Reveal(&b.Tasks[0])
			if err != nil {
				t.Fatal(err)
			}
			c := hidden.Candidates[0]
			if c.Correct != tt.correct || !strings.Contains(c.Patch, tt.code) || tt.from == "model" && c.Origin != "model" {
				t.Errorf("%+v", c)
			}
			if _, err := grade.ApplyDiff(rec.Workspace.Files, c.Patch); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestQuestionForCandidates(t *testing.T) {
	var asked []sdk.ModelRequest
	h := model(&asked, changes(t))
	rec := sdktest.Records()[1] // two sources and a file that is none
	for range 2 {
		if _, err := sdktest.Build(t.Context(), skill{}, h, &sdk.BuildRequest{Record: rec, Config: []sdk.Pair{{Key: "candidates_from", Value: "model"}}, Seed: 3}); err != nil {
			t.Fatal(err)
		}
	}
	q := asked[0]
	if q.Temperature != 0 || q.Seed == 0 || q.Seed != asked[1].Seed || q.Schema != candidatesSchema {
		t.Errorf("%+v", q)
	}
	u := q.Messages[1].Content
	for want, n := range map[string]int{rec.Problem: 1, "store/cart.py\n<file ": 1, "store/price.py\n<file ": 1, "README.md": 0, "@@": 0} {
		if strings.Count(u, want) != n {
			t.Errorf("%q is not there %d times: %s", want, n, u)
		}
	}
	var v any
	if err := json.Unmarshal([]byte(candidatesSchema), &v); err != nil {
		t.Error(err)
	}
}

func TestDiffApplies(t *testing.T) {
	line := rapid.SampledFrom([]string{"a\n", "b\n", "\n", " c\n", "-d\n", "+e\n", "\\ f\r\n", "@@ -1 +1 @@\n"})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, "lines"), "") + rapid.SampledFrom([]string{"", "end"}).Draw(t, "end")
	})
	rapid.Check(t, func(t *rapid.T) {
		old, new := text.Draw(t, "old"), text.Draw(t, "new")
		if old == new {
			return
		}
		tree, err := grade.ApplyDiff([]sdk.File{{Path: "x.py", Data: []byte(old)}}, diff("x.py", old, new))
		if err != nil || string(tree[0].Data) != new {
			t.Fatalf("%q to %q: %v\n%s", old, new, err, diff("x.py", old, new))
		}
	})
}

func TestDiff(t *testing.T) {
	const want = `diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -2,5 +2,6 @@
 2
 3
 4
-5
+five
+5.5
 6
\ No newline at end of file
`
	if got := diff("x.py", "1\n2\n3\n4\n5\n6", "1\n2\n3\n4\nfive\n5.5\n6"); got != want {
		t.Error(got)
	}
}

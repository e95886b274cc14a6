package mutate

import (
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
)

func TestGoEdits(t *testing.T) {
	text := "package p\n\ntype T struct{}\n\nfunc (t *T) F(a, b int) (int, error) {\n\tif a < b && !t.ok() {\n\t\treturn g(a, b), err\n\t}\n\tfor i := 0; i < len(x); i++ {\n\t\tif a == 1 {\n\t\t\tcontinue\n\t\t}\n\t\th()\n\t}\n\treturn x[a:b][0] + 2, nil\n}\n"
	list := goFunctions([]sdk.File{{Path: "p.go", Data: []byte(text)}, {Path: "bad.go", Data: []byte("package")}})
	if len(list) != 1 || list[0].Name != "T.F" || list[0].Line != 5 {
		t.Fatalf("%+v", list)
	}
	var operators []string
	for _, e := range list[0].Edits {
		after := string(e.apply([]byte(text)))
		if after == text {
			t.Errorf("%+v changes nothing", e)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "p.go", after, 0); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
		if !slices.Contains(operators, e.Operator) {
			operators = append(operators, e.Operator)
		}
	}
	slices.Sort(operators)
	want := []string{"argument order", "arithmetic", "boolean", "boundary", "comparison", "condition", "loop", "negation", "off by one", "return", "statement"}
	if !slices.Equal(operators, want) {
		t.Errorf("operators %q, want %q", operators, want)
	}
}

func TestLexicalEdits(t *testing.T) {
	text := "# f() < 1\nf() {\n  if [ $1 -lt 2 ]; then  # 3 < 4\n    echo \"5 < 6\" && true\n  fi\n}\nx=7\n"
	list := lexicalFunctions(regexp.MustCompile(`^(\w+)\(\)`), []sdk.File{{Path: "a.sh", Data: []byte(text)}})
	if len(list) != 1 || list[0].Name != "f" || list[0].Line != 2 || list[0].End != 6 {
		t.Fatalf("%+v", list)
	}
	var got []string
	for _, e := range list[0].Edits {
		got = append(got, strings.TrimSpace(text[e.Start:e.End])+"→"+strings.TrimSpace(e.New))
	}
	want := []string{"-lt→-le", "2→3", "2→1", "&&→||", "true→false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOperatorsTakeTurns(t *testing.T) {
	f := &Function{Path: "a", Name: "f"}
	for i := range 10 {
		f.Edits = append(f.Edits, Edit{i, i + 1, "", "constant"})
	}
	f.Edits = append(f.Edits, Edit{20, 21, "", "boundary"})
	for seed := range uint64(20) {
		order := inOrder(f, seed)
		if len(order) != 11 || !slices.ContainsFunc(order[:2], func(e Edit) bool { return e.Operator == "boundary" }) {
			t.Fatalf("seed %d: %+v", seed, order)
		}
	}
}

func FuzzLexical(f *testing.F) {
	f.Add("f() {\n x < 1 \"\n}\n")
	begins := regexp.MustCompile(`^(\w+)\(\)`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, fn := range lexicalFunctions(begins, []sdk.File{{Path: "a", Data: []byte(text)}}) {
			for _, e := range fn.Edits {
				if e.Start < 0 || e.End < e.Start || e.End > len(text) {
					t.Fatalf("%+v of %d bytes", e, len(text))
				}
			}
		}
	})
}

func FuzzGo(f *testing.F) {
	f.Add("package p\nfunc f() { if a < 1 { g() } }\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, fn := range goFunctions([]sdk.File{{Path: "a.go", Data: []byte(text)}}) {
			for _, e := range fn.Edits {
				e.apply([]byte(text))
			}
		}
	})
}

package mutate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"

	"github.com/valence-rl/valence/sdk"
)

var (
	goComparisons = map[token.Token][]string{
		token.LSS: {"<=", ">"}, token.LEQ: {"<", ">="}, token.GTR: {">=", "<"}, token.GEQ: {">", "<="}, token.EQL: {"!="}, token.NEQ: {"=="},
	}
	goArithmetic = map[token.Token][]string{
		token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"+", "/"}, token.QUO: {"*"}, token.REM: {"/"},
		token.AND: {"|"}, token.OR: {"&"}, token.XOR: {"&"}, token.SHL: {">>"}, token.SHR: {"<<"}, token.AND_NOT: {"&"},
		token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="}, token.MUL_ASSIGN: {"+="}, token.QUO_ASSIGN: {"*="},
		token.AND_ASSIGN: {"|="}, token.OR_ASSIGN: {"&="}, token.XOR_ASSIGN: {"&="}, token.SHL_ASSIGN: {">>="}, token.SHR_ASSIGN: {"<<="},
	}
)

// goFunctions finds the functions of Go files. What does not parse has none.
func goFunctions(files []sdk.File) []Function {
	var out []Function
	for _, f := range files {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f.Path, f.Data, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil || ast.IsGenerated(file) || file.Name.Name == "main" {
			continue
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			g := &goEdits{file: set.File(file.Pos()), data: f.Data, seen: map[string]bool{}}
			ast.Inspect(fn.Body, g.visit)
			if len(g.out) == 0 {
				continue
			}
			out = append(out, Function{Path: f.Path, Name: goName(fn), Line: set.Position(fn.Pos()).Line, End: set.Position(fn.End()).Line, Edits: g.out})
		}
	}
	return out
}

// goName is Type.Method for a method.
func goName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
			continue
		case *ast.IndexExpr:
			t = x.X
			continue
		case *ast.IndexListExpr:
			t = x.X
			continue
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		}
		return fn.Name.Name
	}
}

type goEdits struct {
	file *token.File
	data []byte
	out  []Edit
	seen map[string]bool
}

func (g *goEdits) at(p token.Pos) int { return g.file.Offset(p) }

func (g *goEdits) text(n ast.Node) string { return string(g.data[g.at(n.Pos()):g.at(n.End())]) }

func (g *goEdits) put(start, end int, text, operator string) {
	key := strconv.Itoa(start) + " " + strconv.Itoa(end) + " " + text
	if start < 0 || end < start || end > len(g.data) || string(g.data[start:end]) == text || g.seen[key] {
		return
	}
	g.seen[key] = true
	g.out = append(g.out, Edit{start, end, text, operator})
}

func (g *goEdits) replace(n ast.Node, text, operator string) {
	g.put(g.at(n.Pos()), g.at(n.End()), text, operator)
}

func (g *goEdits) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		at := g.at(n.OpPos)
		for i, o := range goComparisons[n.Op] {
			operator := "comparison"
			if i == 0 && n.Op != token.EQL && n.Op != token.NEQ {
				operator = "boundary"
			}
			g.put(at, at+len(n.Op.String()), o, operator)
		}
		for _, o := range goArithmetic[n.Op] {
			if lit, ok := n.X.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				break
			}
			if lit, ok := n.Y.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				break
			}
			g.put(at, at+len(n.Op.String()), o, "arithmetic")
		}
		switch n.Op {
		case token.LAND, token.LOR:
			other := "||"
			if n.Op == token.LOR {
				other = "&&"
			}
			g.put(at, at+2, other, "boolean")
			g.replace(n, "("+g.text(n.X)+")", "condition")
			g.replace(n, "("+g.text(n.Y)+")", "condition")
		}
	case *ast.AssignStmt:
		at := g.at(n.TokPos)
		for _, o := range goArithmetic[n.Tok] {
			g.put(at, at+len(n.Tok.String()), o, "arithmetic")
		}
		if n.Tok != token.DEFINE && n.Tok != token.ASSIGN {
			g.replace(n, "", "statement")
		}
	case *ast.IncDecStmt:
		at := g.at(n.TokPos)
		other := "--"
		if n.Tok == token.DEC {
			other = "++"
		}
		g.put(at, at+2, other, "arithmetic")
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			g.replace(n, g.text(n.X), "negation")
		}
	case *ast.BasicLit:
		g.literal(n)
	case *ast.Ident:
		switch n.Name {
		case "true":
			g.replace(n, "false", "constant")
		case "false":
			g.replace(n, "true", "constant")
		}
	case *ast.IfStmt:
		g.replace(n.Cond, "!("+g.text(n.Cond)+")", "condition")
	case *ast.BranchStmt:
		if n.Label == nil {
			switch n.Tok {
			case token.BREAK:
				g.replace(n, "continue", "loop")
			case token.CONTINUE:
				g.replace(n, "break", "loop")
			}
		}
	case *ast.ExprStmt:
		if _, ok := n.X.(*ast.CallExpr); ok {
			g.replace(n, "", "statement")
		}
	case *ast.ReturnStmt:
		g.result(n)
	case *ast.CallExpr:
		if len(n.Args) >= 2 && n.Ellipsis == token.NoPos {
			a, b := n.Args[0], n.Args[1]
			between := string(g.data[g.at(a.End()):g.at(b.Pos())])
			g.put(g.at(a.Pos()), g.at(b.End()), g.text(b)+between+g.text(a), "argument order")
		}
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "len" {
			g.replace(n, "("+g.text(n)+" - 1)", "off by one")
		}
	case *ast.SliceExpr:
		for _, bound := range []ast.Expr{n.Low, n.High} {
			if bound != nil {
				if _, literal := bound.(*ast.BasicLit); !literal {
					g.replace(bound, g.text(bound)+"+1", "off by one")
					g.replace(bound, g.text(bound)+"-1", "off by one")
				}
			}
		}
	}
	return true
}

func (g *goEdits) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseInt(n.Value, 10, 32); err == nil {
			g.replace(n, strconv.FormatInt(v+1, 10), "off by one")
			if v > 0 {
				g.replace(n, strconv.FormatInt(v-1, 10), "off by one")
			}
		}
	case token.STRING:
		if len(n.Value) > 2 && len(n.Value) <= 22 {
			g.replace(n, `""`, "constant")
		}
	case token.CHAR:
		if n.Value != "'x'" {
			g.replace(n, "'x'", "constant")
		}
	}
}

// result changes what is returned where that needs no types.
func (g *goEdits) result(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		switch x := r.(type) {
		case *ast.Ident:
			if x.Name == "err" {
				g.replace(r, "nil", "return")
			}
		case *ast.BinaryExpr:
			if _, compares := goComparisons[x.Op]; compares || x.Op == token.LAND || x.Op == token.LOR {
				g.replace(r, "!("+g.text(r)+")", "return")
			}
		}
	}
}

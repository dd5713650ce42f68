package match

import (
	"sync"

	"cel.dev/cel-go/common/ast"
)

var syntax = sync.OnceValue(whereLanguage)

// Names reports whether a `where` names a variable, known or not. False: it does not, or it is no expression.
func Names(where, variable string) (found bool) {
	parsed, issues := syntax().env.Parse(where)
	if issues.Err() != nil {
		return false
	}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return found
}

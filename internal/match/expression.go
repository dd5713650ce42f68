package match

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
	"k8s.io/utils/lru"

	"github.com/bourse-dev/bourse/api"
)

// Bounds of an expression. A unit of cost takes some tens of nanoseconds.
const (
	maxExpression = 2048 // characters
	// maxDepth is how deep it may nest. The time to check its types grows with the cube of the depth.
	maxDepth = 24
	// maxNodes is how many parts it may have. Many compiled expressions are remembered, so each must be small.
	maxNodes = 500
	// maxCost is the highest cost of an evaluation for one cluster.
	maxCost = 2_000
	// maxEstimate is the highest estimated cost. Three nested loops over usual lists exceed it. Two do not,
	// and maxCost then bounds the evaluation.
	maxEstimate = 1_000_000
	maxRegex    = 1_000 // instructions of a compiled regular expression
)

// Usual sizes of lists and texts on a card, to estimate costs. The evaluation for a larger card costs more.
const (
	usualItems = 64
	usualText  = 256
)

// functions are all functions of expressions. None makes a string or a list that is larger than its input, so
// memory needs no bound of its own.
var functions = []*env.Function{
	{Name: "_&&_"}, {Name: "_||_"}, {Name: "!_"}, {Name: "_?_:_"},
	{Name: "_==_"}, {Name: "_!=_"}, {Name: "_<_"}, {Name: "_<=_"}, {Name: "_>_"}, {Name: "_>=_"},
	{Name: "@in"}, {Name: "_[_]"}, {Name: "size"},
	{Name: "startsWith"}, {Name: "endsWith"}, {Name: "contains"}, {Name: "matches"},
	{Name: "_+_", Overloads: []*env.Overload{{ID: "add_int64"}, {ID: "add_double"}}},
	{Name: "_-_", Overloads: []*env.Overload{{ID: "subtract_int64"}, {ID: "subtract_double"}}},
	{Name: "_*_"}, {Name: "_/_"}, {Name: "_%_"}, {Name: "-_"},
	{Name: "int"}, {Name: "double"},
	{Name: "@not_strictly_false"}, // the loops' own
}

var macros = []string{"has", "all", "exists", "exists_one"}

// language is a set of variables, with recently compiled expressions over them.
type language struct {
	field     string // of the input that has the expression
	names     string // of the variables, for the remedy
	variables map[string]variable
	missing   map[string]error // the errors for unknown variables
	env       *cel.Env
	compiled  *lru.Cache
}

// newLanguage panics if the declaration of a variable is wrong, which any test finds.
func newLanguage(field string, remember int, variables []variable) *language {
	subset := env.NewLibrarySubset().AddIncludedFunctions(functions...).AddIncludedMacros(macros...)
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.HomogeneousAggregateLiterals(),    // so that types are all known before
		cel.CrossTypeNumericComparisons(true), // allocatable.cpu >= 16, and not only >= 16.0
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegex),
	}
	l := &language{field: field, compiled: lru.New(remember), variables: map[string]variable{},
		missing: map[string]error{}}
	var names []string
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.kind))
		names = append(names, v.name)
		l.variables[v.name], l.missing[v.name] = v, fmt.Errorf("%s is not advertised", v.name)
	}
	l.names = strings.Join(names, ", ")
	var err error
	if l.env, err = cel.NewCustomEnv(options...); err != nil {
		panic(err)
	}
	return l
}

// program is a compiled expression, or the error of its compilation.
type program struct {
	cel cel.Program
	err error
	// results are those of a `where`, by cluster.
	results slotCache[whereResult]
}

// compile returns the compiled expression. Each use has its own program, so that it has its own results.
// Errors are remembered, too. Errors: Invalid with the language's field.
func (l *language) compile(expression, use string) (*program, error) {
	key := [2]string{expression, use}
	if known, ok := l.compiled.Get(key); ok {
		p := known.(*program)
		return p, p.err
	}
	p := &program{}
	p.cel, p.err = l.build(expression)
	if len(expression) <= 4*maxExpression { // a key that is kept must be bounded
		l.compiled.Add(key, p)
	}
	return p, p.err
}

func (l *language) build(expression string) (cel.Program, error) {
	if n := utf8.RuneCountInString(expression); n > maxExpression {
		return nil, api.Invalid(l.field, "%d characters", n).Fix("use at most %d", maxExpression)
	}
	if !printable(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(expression)) {
		return nil, api.Invalid(l.field, "has characters that do not print").Fix(`write them in strings as "\u001b"`)
	}
	ast, issues := l.env.Compile(expression)
	if err := issues.Err(); err != nil {
		first, position := issues.Errors()[0], ""
		if line := first.Location.Line(); line > 0 {
			position = fmt.Sprintf("line %d, column %d: ", line, first.Location.Column()+1)
		}
		return nil, api.Invalid(l.field, "%s%s", position, oneLine(first.Message)).
			Fix("write a CEL expression over %s", l.names)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, api.Invalid(l.field, "is %s, not true or false", oneLine(ast.OutputType().String())).
			Fix("compare it with something")
	}
	estimate, err := l.env.EstimateCost(ast, usualSizes{})
	if err != nil {
		return nil, api.Invalid(l.field, "%s", oneLine(err.Error()))
	}
	if estimate.Max > maxEstimate {
		return nil, api.Invalid(l.field, "may take too long: a cost of %d, the most is %d", estimate.Max, maxEstimate).
			Fix("nest fewer loops")
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if estimate.Max > maxCost {
		// Only then, because counting the cost takes longer than most expressions do.
		options = append(options, cel.CostLimit(maxCost))
	}
	p, err := l.env.Program(ast, options...)
	if err != nil {
		return nil, api.Invalid(l.field, "%s", oneLine(err.Error()))
	}
	return p, nil
}

// evaluate returns passes if the program is true, or the reason why not. There is an error if it
// has no result.
func (p *program) evaluate(about *facts) (reason, error) {
	out, _, err := p.cel.Eval(about)
	if _, cancelled := err.(interpreter.EvalCancelledError); cancelled {
		return whereTooCostly, err
	}
	switch out {
	case types.True:
		return passes, nil
	case types.False:
		return whereFalse, nil
	}
	return whereUnknown, err
}

// usualSizes estimates the sizes of variables.
type usualSizes struct{}

func (usualSizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

func (usualSizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if node.ComputedSize() != nil {
		return nil
	}
	switch node.Type().Kind() {
	case types.ListKind, types.MapKind:
		return &cost.SizeEstimate{Max: usualItems}
	case types.StringKind:
		return &cost.SizeEstimate{Max: usualText}
	}
	return nil
}

// oneLine makes a message of CEL safe to show in a terminal. It may quote texts of others.
func oneLine(text string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if r := []rune(clean); len(r) > 200 {
		return string(r[:200]) + "..."
	}
	return clean
}

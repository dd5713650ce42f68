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
	// maxDepth is how deep it may nest: the time to check its types grows with the cube of it.
	maxDepth = 24
	// maxNodes is how many parts it may have: so many compiled ones are remembered that each must be small.
	maxNodes = 500
	// maxCost is the most that an expression may cost for one cluster when it is evaluated.
	maxCost = 2_000
	// maxEstimate is the most that it may cost by estimate to be accepted at all: three nested
	// loops over usual lists are too much, two are accepted and then bounded by maxCost.
	maxEstimate = 1_000_000
	maxRegex    = 1_000 // instructions of a compiled regular expression
)

// usual sizes of what a card has, by which costs are estimated. A card that is larger costs
// more, in proportion, and only where it is evaluated itself.
const (
	usualItems = 64
	usualText  = 256
)

// functions are all that an expression may use. None of them can make a string or a
// list that is larger than what went in, so memory needs no bound of its own.
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

// language is a set of variables, with the expressions over them that were compiled lately.
type language struct {
	field     string // of the input that holds such an expression
	names     string // of the variables, for the remedy
	variables map[string]variable
	missing   map[string]error // what is said of one that is unknown
	env       *cel.Env
	compiled  *lru.Cache
}

// newLanguage panics if a variable is declared wrongly, which any test finds.
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

// program is a compiled expression, or why it is none.
type program struct {
	cel cel.Program
	err error
	// answers are what it came to, for `where`.
	answers slotCache[whereResult]
}

// compile compiles an expression, or finds it compiled: one program for each use, so
// that each use has its own answers. An error is remembered like a program, so that asking
// again is as cheap. Errors: Invalid with the language's field.
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
		first, at := issues.Errors()[0], ""
		if line := first.Location.Line(); line > 0 {
			at = fmt.Sprintf("line %d, column %d: ", line, first.Location.Column()+1)
		}
		return nil, api.Invalid(l.field, "%s%s", at, oneLine(first.Message)).
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

// truth is what an expression comes to. It counts as true only if it holds.
type truth uint8

const (
	unknown truth = iota // something it needs is not there, or cannot be computed
	holds
	fails
	costly // it took too long
)

// evaluate says what the program comes to, with the trouble if it is unknown or costly.
func (p *program) evaluate(about *facts) (truth, error) {
	out, _, err := p.cel.Eval(about)
	if _, cancelled := err.(interpreter.EvalCancelledError); cancelled {
		return costly, err
	}
	switch out {
	case types.True:
		return holds, nil
	case types.False:
		return fails, nil
	}
	return unknown, err
}

// usualSizes estimates the sizes of what is not in the expression itself.
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

// oneLine makes a message of CEL, which may quote what others wrote, fit to be shown in a terminal.
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

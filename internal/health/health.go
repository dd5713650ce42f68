// Package health is every problem that a user can see, as data: its code, how much it matters, and what it means. The
// doctor, conditions, metrics and the documentation all read this one list; what has a problem, and the exact fix, says
// whoever finds it.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Kind is a kind of problem.
type Kind struct {
	Code     string
	Severity api.Severity
	Meaning  string
}

// Of is a problem of this kind: what has it, what is so, and the exact fix.
func (k Kind) Of(subject, remedy, detail string, args ...any) api.Problem {
	return api.Problem{Code: k.Code, Severity: k.Severity, Subject: subject, Detail: fmt.Sprintf(detail, args...), Remedy: remedy}
}

// Sort puts the worst first.
func Sort(all []api.Problem) {
	rank := func(p api.Problem) int {
		return slices.Index([]api.Severity{api.SeverityError, api.SeverityWarning, api.SeverityInfo}, p.Severity)
	}
	slices.SortStableFunc(all, func(a, b api.Problem) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Code, b.Code), strings.Compare(a.Subject, b.Subject))
	})
}

// Worst is the worst severity among problems; empty if there are none.
func Worst(all []api.Problem) api.Severity {
	worst := api.Severity("")
	for _, p := range all {
		switch {
		case p.Severity == api.SeverityError, p.Severity == api.SeverityWarning && worst != api.SeverityError, worst == "":
			worst = p.Severity
		}
	}
	return worst
}

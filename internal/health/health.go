// Package health lists every problem that a user can see, as data: its code, severity, meaning,
// effect and fix. The doctor, the conditions, the metrics and the documentation all read this one
// list. The code that finds a problem names the subject and the exact fix.
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
	// Meaning says what is wrong, Effect what follows from it, Fix what to do in general. Each is
	// one or more whole sentences.
	Meaning, Effect, Fix string
}

// Of makes a problem of this kind. subject is the cluster or object that has it, remedy the exact fix.
func (k Kind) Of(subject, remedy, detail string, args ...any) api.Problem {
	return api.Problem{Code: k.Code, Severity: k.Severity, Subject: subject,
		Detail: fmt.Sprintf(detail, args...), Remedy: remedy}
}

// rank orders problems by severity: the worst first.
func rank(p api.Problem) int {
	return slices.Index([]api.Severity{api.SeverityError, api.SeverityWarning, api.SeverityInfo}, p.Severity)
}

// Sort sorts problems: the worst first.
func Sort(all []api.Problem) {
	slices.SortStableFunc(all, func(a, b api.Problem) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Code, b.Code), strings.Compare(a.Subject, b.Subject))
	})
}

// Worst returns the worst severity among problems. It is empty if there are none.
func Worst(all []api.Problem) api.Severity {
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(a, b api.Problem) int { return rank(a) - rank(b) }).Severity
}

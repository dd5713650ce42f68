package match

import (
	"errors"

	"github.com/bourse-dev/bourse/api"
)

// Allows says whether a provider's Terms.Allow lets this consumer have what it asks for. An
// expression that is empty always does; one that needs what the consumer does not show, or
// takes too long, does not. Errors: Invalid and Forbidden at allow, saying why there is no answer; it is then no.
//
// Of the ask it looks at Size, Duration and Request.Pool.
func (e *Engine) Allows(allow string, consumer api.Card, a Ask) (bool, error) {
	return e.allow.allows(allow, &consumer, &a)
}

// CheckAllow says why an expression cannot be a Terms.Allow. Errors: Invalid at allow.
func (e *Engine) CheckAllow(allow string) error {
	if allow == "" {
		return nil
	}
	_, err := e.allow.compile(allow, "")
	return err
}

// CheckAccept says the same of an offer's `accept`. Errors: Invalid at accept.
func (e *Engine) CheckAccept(accept string) error {
	err := e.CheckAllow(accept)
	if wrong, ok := errors.AsType[*api.Error](err); ok {
		return wrong.At("accept")
	}
	return err
}

func (l *language) allows(allow string, consumer *api.Card, a *Ask) (bool, error) {
	if allow == "" {
		return true, nil
	}
	p, err := l.compile(allow, "")
	if err != nil {
		return false, err
	}
	t, err := p.evaluate(&facts{language: l, card: consumer, ask: a})
	if err != nil {
		return false, api.Errorf(api.CodeForbidden, "the condition of the terms has no answer: %s", oneLine(err.Error())).At(l.field)
	}
	return t == holds, nil
}

// permissions are what the terms seen in one decision said: many providers have the same
// expression, and within a decision it says the same for all.
type permissions struct {
	language *language
	known    []permission
}

type permission struct {
	allow string
	given bool
}

const maxPermissions = 16 // more are searched longer than they take to evaluate

func (p *permissions) given(q *question, allow string) bool {
	if allow == "" {
		return true
	}
	for i := range p.known {
		if p.known[i].allow == allow {
			return p.known[i].given
		}
	}
	given, _ := p.language.allows(allow, q.card, &q.Ask)
	if len(p.known) < maxPermissions {
		p.known = append(p.known, permission{allow, given})
	}
	return given
}

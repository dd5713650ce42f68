package match

import (
	"errors"

	"github.com/bourse-dev/bourse/api"
)

// Allows reports whether a provider's Terms.Allow permits a consumer's request. An empty expression
// permits it. An expression that has no result, or takes too long, does not. It uses Size, Duration
// and Request.Pool of the ask. Errors: Invalid and Forbidden at allow say why there is no result.
func (e *Engine) Allows(allow string, consumer api.Card, a Ask) (bool, error) {
	return e.allow.allows(allow, &consumer, &a)
}

// CheckAllow reports why an expression is not a valid Terms.Allow, or nil. Errors: Invalid at allow.
func (e *Engine) CheckAllow(allow string) error {
	if allow == "" {
		return nil
	}
	_, err := e.allow.compile(allow, "")
	return err
}

// CheckAccept is CheckAllow for an offer's `accept`. Errors: Invalid at accept.
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
	r, err := p.evaluate(&facts{language: l, card: consumer, ask: a})
	if err != nil {
		return false, api.Errorf(api.CodeForbidden, "the condition of the terms has no answer: %s", oneLine(err.Error())).
			At(l.field)
	}
	return r == passes, nil
}

const maxPermissions = 16 // remembered in one decision

// permits reports whether an expression permits the ask. It remembers results for this decision,
// because many providers have the same expression.
func (q *question) permits(allow string) bool {
	if allow == "" {
		return true
	}
	given, known := q.permissions[allow]
	if !known {
		given, _ = q.allow.allows(allow, q.card, &q.Ask)
		if q.permissions != nil && len(q.permissions) < maxPermissions {
			q.permissions[allow] = given
		}
	}
	return given
}

package match

import (
	"sync/atomic"

	"github.com/bourse-dev/bourse/api"
)

// whereInput identifies what a `where` reads of a cluster.
type whereInput struct {
	card             *api.Card
	sequence         api.Sequence
	uptime, honoured int64
}

// whereResult is the result of a `where` for a cluster.
type whereResult struct {
	whereInput
	reason reason
}

// whereResults evaluates a `where` in one decision. It looks up earlier results and computes the others.
type whereResults struct {
	program *program
	known   []atomic.Pointer[whereResult]
	facts   facts
}

func (l *language) open(p *program, size int) whereResults {
	if p == nil {
		return whereResults{}
	}
	return whereResults{program: p, known: p.results.open(size), facts: facts{language: l}}
}

// lookUp returns the result of the expression for a cluster.
func (a *whereResults) lookUp(c *candidate) reason {
	if a.program == nil {
		return whereUnknown
	}
	now := whereInput{c.card, c.Measured.Sequence, c.Uptime, c.Honoured}
	if known := a.known[c.Slot].Load(); known != nil && known.whereInput == now {
		return known.reason
	}
	r, _ := a.compute(c)
	a.known[c.Slot].Store(&whereResult{now, r})
	return r
}

// explainFailure returns why the expression has no result for a cluster, in words.
func (a *whereResults) explainFailure(c *candidate) string {
	if _, err := a.compute(c); err != nil {
		return oneLine(err.Error())
	}
	return ""
}

func (a *whereResults) compute(c *candidate) (reason, error) {
	a.facts.card, a.facts.pools, a.facts.pool = c.card, c.Measured.Pools, c.pool.Name
	a.facts.uptime, a.facts.honoured = c.Uptime, c.Honoured
	return a.program.evaluate(&a.facts)
}

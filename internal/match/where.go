package match

import (
	"github.com/bourse-dev/bourse/api"
)

// whereResult is the result of a `where` for a cluster. It holds for the card, the
// advertisement, the uptime and the record that it was computed from.
type whereResult struct {
	card     *api.Card
	sequence api.Sequence
	uptime   int32
	honoured int32
	truth    truth
}

// whereResults evaluates a `where` in one decision. It looks up earlier results and computes the others.
type whereResults struct {
	program *program
	known   cacheReading[whereResult]
	facts   facts
}

func (l *language) open(p *program) whereResults {
	if p == nil {
		return whereResults{}
	}
	return whereResults{program: p, known: p.answers.open(), facts: facts{language: l}}
}

func (a *whereResults) close() {
	if a.program != nil {
		a.known.close()
	}
}

// about returns the result of the expression for a cluster.
func (a *whereResults) about(c *candidate) truth {
	if a.program == nil {
		return unknown
	}
	if known := a.known.at(int(c.slot)); known.card == c.card && known.sequence == c.sequence &&
		known.uptime == c.uptime && known.honoured == c.honoured {
		return known.truth
	}
	t, _ := a.compute(c)
	a.known.put(int(c.slot), whereResult{c.card, c.sequence, c.uptime, c.honoured, t})
	return t
}

// trouble returns why the expression has no result for a cluster, in words.
func (a *whereResults) trouble(c *candidate) string {
	if _, err := a.compute(c); err != nil {
		return oneLine(err.Error())
	}
	return ""
}

func (a *whereResults) compute(c *candidate) (truth, error) {
	a.facts.card, a.facts.pools, a.facts.pool = c.card, c.Measured.Pools, c.pool.Name
	a.facts.uptime, a.facts.honoured = int64(c.uptime), int64(c.honoured)
	return a.program.evaluate(&a.facts)
}

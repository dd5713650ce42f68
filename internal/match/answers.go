package match

import (
	"github.com/bourse-dev/bourse/api"
)

// answer is what a `where` came to for a cluster. It holds for the card, the
// advertisement, the uptime and the record that it was computed from.
type answer struct {
	card     *api.Card
	sequence api.Sequence
	uptime   int32
	honoured int32
	truth    truth
}

// answers is one decision's use of a `where`: it looks up what was computed before, and
// computes the rest.
type answers struct {
	program *program
	known   reading[answer]
	facts   facts
}

func (l *language) open(p *program) answers {
	if p == nil {
		return answers{}
	}
	return answers{program: p, known: p.answers.open(), facts: facts{language: l}}
}

func (a *answers) close() {
	if a.program != nil {
		a.known.close()
	}
}

// about says what the expression comes to for a cluster.
func (a *answers) about(c *candidate) truth {
	if a.program == nil {
		return unknown
	}
	if known := a.known.at(int(c.slot)); known.card == c.card && known.sequence == c.sequence && known.uptime == c.uptime && known.honoured == c.honoured {
		return known.truth
	}
	t, _ := a.compute(c)
	a.known.put(int(c.slot), answer{c.card, c.sequence, c.uptime, c.honoured, t})
	return t
}

// trouble says in words why the expression has no answer for a cluster.
func (a *answers) trouble(c *candidate) string {
	if _, err := a.compute(c); err != nil {
		return oneLine(err.Error())
	}
	return ""
}

func (a *answers) compute(c *candidate) (truth, error) {
	a.facts.card, a.facts.pools, a.facts.pool = c.card, c.Measured.Pools, c.pool.Name
	a.facts.uptime, a.facts.honoured = int64(c.uptime), int64(c.honoured)
	return a.program.evaluate(&a.facts)
}

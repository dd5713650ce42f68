package match

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A cluster whose agent is of the prototypes has no key: its broker signs in its name, and its card says so. Both parties of a
// reservation must accept that; two such clusters do.

// takesLegacy says whether a cluster with that card and these terms accepts what the broker signs in another's name.
func takesLegacy(card *api.Card, terms *market.Terms) bool {
	return card.Legacy || terms != nil && terms.Trust == api.TrustLegacy
}

func ownKey(_ *question, c *candidate) reason {
	if c.card == nil || c.card.Legacy {
		return otherTrust
	}
	return passes
}

func accepted(q *question, c *candidate) reason {
	if c.card.Legacy && !takesLegacy(q.card, q.terms) {
		return otherTrust
	}
	return passes
}

func ownsKey(q *question) bool { return !q.card.Legacy }

func accepts(_ *question, c *candidate) reason {
	if !takesLegacy(c.card, c.Measured.Terms) {
		return untrusting
	}
	return passes
}

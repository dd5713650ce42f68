package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Bounds of what buyers propose. A proposal lasts a week at most.
const (
	maxProposals  = 8    // of one buyer, at the same time
	maxOfAll      = 512  // of all buyers
	maxProposal   = 4096 // bytes of a document
	ProposalLasts = Time(7 * 24 * 60 * 60 * 1000)
)

// Proposal is a buyer's signed proposal, as the seller's Ledger keeps it until it expires.
type Proposal struct {
	ID       string `json:"id"`
	Document string `json:"document"`
	Expires  Time   `json:"expires"`
	// Answer is the name of the offer that answers it, empty if none does. Countered says that this has
	// other terms.
	Answer    string `json:"answer,omitempty"`
	Countered bool   `json:"countered,omitempty"`
	// Declined says that the seller makes no offer, and Reason why.
	Declined bool   `json:"declined,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Order names what led to the answer, so that it is not carried out again. Empty: nothing that could repeat.
	Order string `json:"order,omitempty"`
}

// Propose keeps a verified proposal of a known buyer. It forgets those of its proposals that expired
// and, if it has too many, those that were declined. To repeat it changes nothing. Errors: NotFound,
// TooLarge, TooManyRequests; Invalid if it has expired, or expires too late.
type Propose struct {
	Buyer string
	Proposal
}

func (c Propose) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Buyer]
	switch {
	case m == nil:
		return Outcome{}, api.Errorf(api.CodeNotFound, "cluster %.63s is not known here", c.Buyer)
	case len(c.Document) > maxProposal:
		return Outcome{}, api.Errorf(api.CodeTooLarge, "the proposal has %d bytes, of at most %d",
			len(c.Document), maxProposal).
			Fix("write a shorter message")
	case c.Expires <= now:
		return Outcome{}, api.Invalid("expires", "the proposal has expired").Fix("propose it again")
	case c.Expires > now+ProposalLasts+Time(SkewGrace.Milliseconds()):
		return Outcome{}, api.Invalid("expires", "the proposal lasts longer than a week").Fix("let it expire earlier")
	}
	if m.Proposal(c.ID) != nil {
		return Outcome{Member: m}, nil
	}
	next := *m
	next.Proposals, next.Changed = m.proposals(now), now
	if len(next.Proposals) >= maxProposals {
		next.Proposals = slices.DeleteFunc(next.Proposals, func(p Proposal) bool { return p.Declined })
	}
	if len(next.Proposals) >= maxProposals {
		return Outcome{}, api.Errorf(api.CodeTooManyRequests, "%d proposals of %s wait here already", maxProposals, c.Buyer).
			Fix("wait until one expires")
	}
	kept := 0
	for _, other := range s.members {
		for i := range other.Proposals {
			if other.Proposals[i].Expires > now {
				kept++
			}
		}
	}
	if kept >= maxOfAll {
		return Outcome{}, api.Errorf(api.CodeTooManyRequests, "%d proposals wait here already", kept).
			Fix("wait until one expires")
	}
	next.Proposals = append(next.Proposals, c.Proposal)
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// AnswerProposal records which offer answers a proposal, or why it was declined. Errors: NotFound.
type AnswerProposal struct {
	Buyer, ID, Answer   string
	Countered, Declined bool
	Reason, Order       string
}

func (c AnswerProposal) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Buyer]
	if m == nil || m.Proposal(c.ID) == nil {
		return Outcome{}, api.Errorf(api.CodeNotFound, "there is no proposal %.63s", c.ID).FixBy("see", "bourse", "proposals")
	}
	next := *m
	next.Proposals, next.Changed = slices.Clone(m.Proposals), now
	p := next.Proposal(c.ID)
	p.Answer, p.Countered, p.Declined, p.Reason = c.Answer, c.Countered, c.Declined, c.Reason
	p.Order = c.Order
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// Proposal returns the proposal of an ID, nil if there is none.
func (m *Member) Proposal(id string) *Proposal {
	if i := slices.IndexFunc(m.Proposals, func(p Proposal) bool { return p.ID == id }); i >= 0 {
		return &m.Proposals[i]
	}
	return nil
}

// proposals returns those that have not expired.
func (m *Member) proposals(now Time) []Proposal {
	return slices.DeleteFunc(slices.Clone(m.Proposals), func(p Proposal) bool { return p.Expires <= now })
}

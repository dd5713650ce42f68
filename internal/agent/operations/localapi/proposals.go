package localapi

import (
	"context"

	"github.com/bourse-dev/bourse/api"
)

// proposal is one as users see it.
type proposal = api.Envelope[api.KnownProposal]

// Proposals negotiates other terms of plans.
type Proposals interface {
	Propose(ctx context.Context, p api.ProposalCreate) (proposal, error)
	// Sent returns what those sellers that are asked say that this cluster proposed.
	Sent(ctx context.Context, asked func(seller string) bool) []proposal
	Received(ctx context.Context) ([]proposal, error)
	Answer(ctx context.Context, id string, a api.ProposalAnswer) (proposal, error)
}

// Propose signs a proposal and sends it to the seller's connector. Errors: Invalid; Unavailable; the seller's.
func (c *Cluster) Propose(ctx context.Context, p api.ProposalCreate) (proposal, error) {
	return c.o.Proposals.Propose(ctx, p)
}

// Proposals returns those that this cluster made, and those that it received.
func (c *Cluster) Proposals(ctx context.Context) ([]proposal, error) {
	sent := c.o.Proposals.Sent(ctx, func(string) bool { return true })
	received, err := readLedger(ctx, c.o.Proposals.Received)
	return append(sent, received...), err
}

// AnswerProposal puts an offer on sale that only the buyer of a proposal sees: its plan with the proposed terms,
// or with those that a names. Or it declines. Errors: NotFound; Conflict if two buyers' proposals have the ID, or
// if it is another proposal than a names; Invalid; Unavailable.
func (c *Cluster) AnswerProposal(ctx context.Context, id string, a api.ProposalAnswer) (proposal, error) {
	return readLedger(ctx, func(ctx context.Context) (proposal, error) { return c.o.Proposals.Answer(ctx, id, a) })
}

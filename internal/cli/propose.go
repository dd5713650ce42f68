package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

type proposal = api.Envelope[api.KnownProposal]

// termFlags adds the flags for other terms of a plan.
func termFlags(cmd *cobra.Command, t *api.ProposalTerms, otherwise string) {
	f := cmd.Flags()
	priceVar(f, &t.Price, "price", "price of one unit, such as 0.08EUR/hour (default: "+otherwise+")")
	f.Int64Var(&t.Units, "units", 0, "how many units of the plan (default: "+otherwise+")")
	optionalDurationVar(f, &t.Duration, "for", "how long (default: "+otherwise+")")
}

func (sh *shell) proposeCommand() *cobra.Command {
	var p api.ProposalCreate
	cmd := &cobra.Command{
		Use: "propose SELLER/OFFER/PLAN", GroupID: "use",
		Short: "Propose another price, size or time for a plan to its seller",
		Long: "Your agent signs the proposal and sends it to the seller's connector. No broker learns of it, and it\n" +
			"binds nobody. The seller accepts or counters it: then an offer is on sale that only your cluster sees.\n" +
			"See bourse proposals.",
		Example: "  bourse propose milan/web/small --price 0.08EUR/hour --units 2 --for 720h",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, planNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			parts := strings.Split(args[0], "/")
			if len(parts) != 3 {
				return api.Invalid("PLAN", "%q does not name a plan", args[0]).
					Fix("write SELLER/OFFER/PLAN, as bourse catalog prints it")
			}
			if sh.allNamespaces {
				return api.Invalid("--all-namespaces", "a proposal is an object of one namespace").
					Fix("name the namespace that is to buy: -n NAMESPACE")
			}
			p.Seller, p.Offer, p.Plan = parts[0], parts[1], parts[2]
			sent, err := c.Propose(ctx, p)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "%s has the proposal until %s; for its answer: bourse proposals\n",
				p.Seller, explain.Time(&sent.Payload.Proposal.Expires))
			_, err = fmt.Fprintln(sh.out, sent.ID)
			return err
		}),
	}
	termFlags(cmd, &p.ProposalTerms, "the plan's")
	cmd.Flags().Lookup("for").Usage = "how long (default " + api.DefaultDuration + ")"
	cmd.Flags().StringVar(&p.Message, "message", "",
		"text that the seller reads, at most 256 characters")
	optionalDurationVar(cmd.Flags(), &p.Within, "within",
		"how long the seller may take to answer, at most 168h (default 72h)")
	return cmd
}

func (sh *shell) proposalsCommand() *cobra.Command {
	return sh.watchable(&cobra.Command{
		Use: "proposals", GroupID: "use",
		Short: "List the proposals that your cluster made and received, with their answers", Args: cobra.NoArgs,
		Long: "Proposals lists those that your cluster made and received. An accepted or countered one is on sale to its\n" +
			"buyer: bourse buy SELLER/PROPOSAL/PLAN. -o wide also shows the proposed terms, the reason of a refusal,\n" +
			"and the name under which the answer is on sale.",
		RunE: sh.asUser(listed((*cluster.Client).Proposals, sh.showProposals)),
	})
}

func (sh *shell) showProposals(items []proposal) error {
	return show(sh, items, "There are no proposals.", []column[api.KnownProposal]{
		{"PROPOSAL", false, func(p proposal) string { return p.ID }},
		{"BUYER", true, func(p proposal) string { return p.Payload.Proposal.Buyer }},
		{"PLAN", false, func(p proposal) string {
			return p.Payload.Proposal.Seller + "/" + p.Payload.Proposal.Offer + "/" + p.Payload.Proposal.Plan
		}},
		{"PRICE", true, func(p proposal) string {
			if p.Payload.Proposal.Price == nil {
				return ""
			}
			return explain.Price(p.Payload.Proposal.Price)
		}},
		{"UNITS", true, func(p proposal) string { return number(p.Payload.Proposal.Units) }},
		{"FOR", true, func(p proposal) string { return approvalText(p.Payload.Proposal.Duration) }},
		{"ANSWER", false, func(p proposal) string { return explain.Answer(p.Payload) }},
		{"REASON", true, func(p proposal) string { return p.Payload.Reason }},
		{"ON SALE AS", true, func(p proposal) string {
			if p.Payload.Answer == "" {
				return ""
			}
			return p.Payload.Proposal.Seller + "/" + p.Payload.Answer + "/" + p.Payload.Proposal.Plan
		}},
		{"EXPIRES IN", true, func(p proposal) string { return explain.Until(p.Payload.Proposal.Expires, time.Now()) }},
		{"MESSAGE", true, func(p proposal) string { return p.Payload.Proposal.Message }},
		{"DIGEST", true, func(p proposal) string { return p.Payload.Digest }},
	})
}

var proposalNames = idsOf((*cluster.Client).Proposals)

func (sh *shell) acceptCommand() *cobra.Command {
	return sh.answerCommand(&cobra.Command{
		Use: "accept PROPOSAL", Short: "Accept a buyer's proposal: put an offer on sale that only that buyer sees",
		Long: "The offer has the proposal's ID as its name and the proposed terms. It is on sale for a week, and\n" +
			"can be bought once. Then the agent deletes it. To take it back before: bourse decline PROPOSAL.",
	}, func(string) (api.ProposalAnswer, error) { return api.ProposalAnswer{}, nil })
}

func (sh *shell) declineCommand() *cobra.Command {
	a := api.ProposalAnswer{Decline: true}
	cmd := sh.answerCommand(&cobra.Command{
		Use: "decline PROPOSAL", Short: "Decline a buyer's proposal, or take back the offer that answers it",
		Long: "The buyer reads it in bourse proposals -o wide. You can still accept or counter the proposal until it\n" +
			"expires.",
		Example: "  bourse decline p-3f9a11c02b7d4e55d1c06b8871f2a9e4360bc5d7 --reason 'no GPU is free'",
	}, func(string) (api.ProposalAnswer, error) { return a, nil })
	cmd.Flags().StringVar(&a.Message, "reason", "", "reason that the buyer reads, at most 256 characters")
	return cmd
}

func (sh *shell) counterCommand() *cobra.Command {
	var t api.ProposalTerms
	cmd := sh.answerCommand(&cobra.Command{
		Use: "counter PROPOSAL", Short: "Answer a buyer's proposal with other terms, in an offer that only that buyer sees",
		Long:    "As bourse accept, with the terms that you name. Terms that you do not name stay as proposed.",
		Example: "  bourse counter p-3f9a11c02b7d4e55d1c06b8871f2a9e4360bc5d7 --price 0.09EUR/hour",
	}, func(id string) (api.ProposalAnswer, error) {
		if t == (api.ProposalTerms{}) {
			return api.ProposalAnswer{}, api.Errorf(api.CodeInvalid, "the command names no other terms").
				Fix("name --price, --units or --for; or accept it: bourse accept %s", id)
		}
		return api.ProposalAnswer{ProposalTerms: t}, nil
	})
	termFlags(cmd, &t, "as proposed")
	return cmd
}

// answerCommand makes cmd answer a proposal, and show it.
func (sh *shell) answerCommand(cmd *cobra.Command, read func(id string) (api.ProposalAnswer, error)) *cobra.Command {
	cmd.GroupID, cmd.Args = "use", cobra.ExactArgs(1)
	cmd.ValidArgsFunction = complete(sh.agentClient, proposalNames)
	var digest string
	cmd.Flags().StringVar(&digest, "digest", "",
		"digest of the proposal that you saw; another one under this ID is refused")
	cmd.RunE = sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
		answer, err := read(args[0])
		if err != nil {
			return err
		}
		answer.Digest = digest
		p, err := c.AnswerProposal(ctx, args[0], answer)
		if err != nil {
			return err
		}
		return sh.showProposals([]proposal{p})
	})
	return cmd
}

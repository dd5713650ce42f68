package ui

import (
	"cmp"
	"context"
	"maps"
	"net/http"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// proposals reads those that the user may list. The buyer of the cluster's own is named once its name is known.
func (u *UI) proposals(ctx context.Context) (all []api.Envelope[api.KnownProposal], err error) {
	var status api.AgentStatus
	together(
		func() { all, err = u.o.Reads.ProposalsOf(ctx, "") },
		func() { status, _ = u.source.status(ctx) },
	)
	self := u.self(ctx, status)
	for i := range all {
		p := &all[i].Payload.Proposal
		p.Buyer = cmp.Or(p.Buyer, self)
	}
	return all, err
}

// home reads what needs attention. What the user may not see is left out.
func (u *UI) home(ctx context.Context, _ *http.Request) content {
	var o pages.Overview
	var ad api.Advertisement
	var noApprovals, noProposals, noPeers, noAd error
	together(
		func() { o.Borrowed = u.borrowed(ctx) },
		func() { o.Approvals, noApprovals = u.o.Reads.Approvals(ctx) },
		func() { o.Proposals, noProposals = u.proposals(ctx) },
		func() { o.Peers, noPeers = u.o.Reads.Peers(ctx) },
		func() { ad, noAd = u.o.Reads.Advertisement(ctx) },
	)
	o.Borrowed.Failed = maps.Clone(o.Borrowed.Failed)
	failed := func(kind string, err error) {
		if code := api.CodeOf(err); err != nil && code != api.CodeForbidden && code != api.CodeNotFound {
			o.Borrowed.Failed[kind] = asError(err)
		}
	}
	failed("Requests that wait for approval", noApprovals)
	failed("Proposals", noProposals)
	failed("Peers", noPeers)
	if o.Shared = ad.Status.Pools; noAd != nil && api.CodeOf(noAd) != api.CodeNotFound {
		o.NotShared = asError(noAd)
	}
	return content{title: "Home", body: func(v pages.View) templ.Component { return pages.Home(v, o) }}
}

package server

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// reservation returns the payload of a record for a party. Only the consumer sees the decision and the
// request.
func (s *Server) reservation(r *market.Reservation, decision *api.Decision,
	caller, lineage string) api.Envelope[api.Reservation] {
	p := PayloadOf(r)
	p.Fence = api.Fence{Lineage: lineage, Revision: r.Revision}
	if r.WaitUntil != 0 && caller != r.Provider {
		p.Waiting = &api.Waiting{Since: r.Since().Meta(), Until: r.WaitUntil.Meta(), Priority: r.Priority()}
	}
	view := s.Exchange.View()
	if caller == r.Consumer {
		p.Request, p.Decision, p.Tried, p.Group = r.Request, decision, r.Tried, r.Group
		p.ProviderCard = signedCard(view, r.Provider)
	}
	if caller == r.Provider {
		p.ConsumerCard = signedCard(view, r.Consumer)
	}
	return api.Envelope[api.Reservation]{ID: r.ID, Revision: r.Revision, Payload: p}
}

// PayloadOf returns what both parties see of a record.
func PayloadOf(r *market.Reservation) api.Reservation {
	p := api.Reservation{
		State: r.State, Reason: r.Reason, Message: r.Message,
		Consumer: r.Consumer, Provider: r.Provider, Pool: r.Pool, Slice: r.Slice(),
		Resources: r.Size.Resources(), Generation: r.Generation,
		Created: r.Created.Meta(), HeldUntil: r.HeldUntil.Meta(),
		ApproveBy: r.ApproveBy.Meta(), Deadline: r.Deadline.Meta(), Until: r.Until.Meta(),
		Assignment: r.Assignment, Acceptance: r.Acceptance, End: r.End, Reclaim: r.Reclaim,
	}
	if c := r.Change; c != nil {
		p.Change = &api.Change{Generation: c.Generation, Resources: c.Size.Resources(),
			Until: c.Until.Meta(), HeldUntil: c.HeldUntil.Meta(),
			Assignment: c.Assignment, Reason: c.Reason, Message: c.Message}
	}
	if r.Sale != nil {
		if p.Sale = r.Sale; r.Offer != nil {
			p.Offer = r.Offer.Document
		}
	}
	return p
}

func signedCard(v *market.View, cluster string) string {
	if l := v.Listing(cluster); l != nil && l.Member != nil {
		return l.Member.Signed
	}
	return ""
}

// cluster returns the payload of a cluster for another member.
func cluster(l *market.Listing, now market.Time) api.Cluster {
	c := api.Cluster{
		Properties: l.Card().Properties, Card: l.Member.Signed,
		Fresh: l.Fresh(now), FreshUntil: l.FreshUntil.Meta(),
	}
	if l.FreshUntil != 0 {
		ago := market.Lease + now.Go().Sub(l.FreshUntil.Go())
		c.HeardAgo = &metav1.Duration{Duration: max(0, ago).Round(time.Second)}
	}
	if l.Uptime != market.UnknownUptime {
		c.Uptime = &l.Uptime
	}
	if l.Honoured != market.UnknownRecord {
		c.Honoured = &l.Honoured
	}
	if l.Measured == nil {
		return c
	}
	c.Sequence = l.Measured.Sequence
	c.Pools = make(map[string]api.Amounts, len(l.Pools))
	for _, p := range l.Pools {
		m := l.Measured.Pools[p.Name]
		c.Pools[p.Name] = api.Amounts{
			Capacity: m.Capacity.Resources(), Allocatable: m.Allocatable.Resources(), Allocated: m.Allocated.Resources(),
			Shared: m.Shared.Resources(), Reserved: p.Reserved.Resources(), Available: p.Available.Resources(),
		}
		c.Overcommitted = c.Overcommitted || p.Available.Negative()
	}
	return c
}

// Sees reports whether a member may see another cluster: itself, or one that is visible to it.
func Sees(viewer, l *market.Listing) bool {
	if viewer.Cluster == l.Cluster {
		return true
	}
	card := viewer.Card()
	return l.Active() && l.Member.Card != nil && l.Measured != nil && l.Measured.Terms != nil &&
		match.Visible(l.Measured.Terms, &card)
}

func etag(revision uint64) string { return strconv.Quote(strconv.FormatUint(revision, 10)) }

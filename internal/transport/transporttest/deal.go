package transporttest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Deal is one reservation as an honest broker shows it to both parties. Each step returns what it then shows;
// a test that lies changes that.
type Deal struct {
	Consumer, Provider *Party

	shown transport.Reservation
}

// NewDeal is a hold of so many CPUs for an hour, at now.
func NewDeal(consumer, provider *Party, id, cpu string, now time.Time) *Deal {
	return &Deal{Consumer: consumer, Provider: provider,
		shown: transport.Reservation{ID: id, Revision: 10, Payload: api.Reservation{
			State: api.Held, Consumer: consumer.ID, Provider: provider.ID, Pool: api.GeneralPool, Generation: 1,
			Slice:     market.SliceName(consumer.ID, provider.ID, api.GeneralPool),
			Resources: CPU(cpu), Created: Seconds(now),
			HeldUntil: Seconds(now.Add(market.HoldTime)), Deadline: Seconds(now.Add(market.DecideTime)), Until: Seconds(now.Add(time.Hour)),
			Fence:        api.Fence{Lineage: "first", Revision: 10},
			ConsumerCard: consumer.Card(api.Properties{Region: "eu"}), ProviderCard: provider.Card(api.Properties{Region: "eu"}),
		}}}
}

// ByHand is the hold where a person at the provider approves it, within so long, as the provider's card says.
func (d *Deal) ByHand(within time.Duration) *transport.Reservation {
	return d.step(func(r *api.Reservation) {
		r.ApproveBy = Seconds(r.Created.Add(within))
		r.ProviderCard = d.Provider.Sign(api.DocumentCard,
			api.Card{Cluster: d.Provider.ID, Key: d.Provider.Key.Public().String(),
				Number: time.Now().UnixMicro(), ApproveWithin: &metav1.Duration{Duration: within}})
	})
}

// From makes it a purchase of that many units of a plan. The broker shows this document of the offer.
func (d *Deal) From(offer, plan string, units int64) *Deal {
	d.shown.Payload.Offer = offer
	d.shown.Payload.Sale = &api.Sale{Offer: clusterkey.Digest(offer).String(), Plan: plan, Units: units}
	return d
}

// Shown is what the broker shows now.
func (d *Deal) Shown() *transport.Reservation {
	r := d.shown
	return &r
}

func (d *Deal) step(change func(*api.Reservation)) *transport.Reservation {
	change(&d.shown.Payload)
	d.shown.Revision++
	d.shown.Payload.Fence.Revision = d.shown.Revision
	return d.Shown()
}

// Signed is the hold with the consumer's assignment.
func (d *Deal) Signed() *transport.Reservation {
	return d.step(func(r *api.Reservation) { r.Assignment = d.Consumer.Assign(d.shown) })
}

// SignedAs is the hold with this assignment, as the consumer signed it.
func (d *Deal) SignedAs(assignment string) *transport.Reservation {
	return d.step(func(r *api.Reservation) { r.Assignment = assignment })
}

// Reserved is what the provider accepted: its own acceptance, or with none this deal's provider's.
func (d *Deal) Reserved(acceptance string) *transport.Reservation {
	if acceptance == "" {
		acceptance = d.Provider.Agree(d.shown)
	}
	return d.step(func(r *api.Reservation) { r.State, r.Acceptance = api.Reserved, acceptance })
}

// Changing is what is bound and is to become another size, for a day; signed is what its consumer
// signed of that, or with none what this deal's consumer signs.
func (d *Deal) Changing(cpu, signed string) *transport.Reservation {
	next := d.shown
	next.Payload.Generation = d.latest() + 1
	next.Payload.Resources, next.Payload.Until = CPU(cpu), Seconds(d.shown.Payload.Created.Add(24*time.Hour))
	next.Payload.HeldUntil = Seconds(time.Now().Add(market.HoldTime))
	if signed == "" {
		signed = d.Consumer.Assign(next)
	}
	return d.step(func(r *api.Reservation) {
		r.Change = &api.Change{Generation: next.Payload.Generation,
			Resources: next.Payload.Resources, Until: next.Payload.Until,
			HeldUntil: next.Payload.HeldUntil, Assignment: signed}
	})
}

func (d *Deal) latest() int64 {
	if c := d.shown.Payload.Change; c != nil {
		return c.Generation
	}
	return d.shown.Payload.Generation
}

// Changed is what has become of a change that the provider accepted, as in Reserved.
func (d *Deal) Changed(acceptance string) *transport.Reservation {
	return d.step(func(r *api.Reservation) {
		c := r.Change
		r.Generation, r.Resources, r.Until, r.Assignment, r.Change = c.Generation, c.Resources, c.Until, c.Assignment, nil
		if r.Acceptance = acceptance; acceptance == "" {
			r.Acceptance = d.Provider.Agree(d.shown)
		}
	})
}

// Unchanged is what is left of a change that was refused.
func (d *Deal) Unchanged(reason api.Reason) *transport.Reservation {
	return d.step(func(r *api.Reservation) {
		r.Change = &api.Change{Generation: r.Change.Generation, Resources: r.Change.Resources,
			Until: r.Change.Until, Reason: reason, Message: "no"}
	})
}

// Moved is the hold on the next best provider, to be signed again.
func (d *Deal) Moved(to *Party) *transport.Reservation {
	d.Provider = to
	return d.step(func(r *api.Reservation) {
		r.State, r.Assignment, r.Acceptance = api.Held, "", ""
		r.Generation, r.Provider, r.ProviderCard = r.Generation+1, to.ID, to.Card(api.Properties{})
		r.Slice = market.SliceName(r.Consumer, to.ID, r.Pool)
	})
}

// Ending is what one of the two ended; by nobody is the broker's word alone.
func (d *Deal) Ending(by *Party, reason api.Reason) *transport.Reservation {
	return d.step(func(r *api.Reservation) {
		r.State, r.Reason = api.Releasing, reason
		if by != nil {
			r.End = by.End(d.shown, reason)
		}
	})
}

// Greeted is what stands, with the cards that the two show now.
func (d *Deal) Greeted() *transport.Reservation {
	return d.step(func(r *api.Reservation) {
		r.ConsumerCard, r.ProviderCard = d.Consumer.Card(api.Properties{Region: "eu"}), d.Provider.Card(api.Properties{Region: "eu"})
	})
}

// Again is the hold where it was, to be signed again.
func (d *Deal) Again() *transport.Reservation {
	d.Greeted()
	return d.step(func(r *api.Reservation) {
		r.State, r.Generation, r.Assignment, r.Acceptance = api.Held, r.Generation+1, "", ""
	})
}

// Over is what nothing follows.
func (d *Deal) Over(state api.State, reason api.Reason) *transport.Reservation {
	return d.step(func(r *api.Reservation) { r.State, r.Reason = state, reason })
}

// Restored is what a broker shows that was restored from a backup: what stands, in another lineage.
func (d *Deal) Restored() *transport.Reservation {
	return d.step(func(r *api.Reservation) { r.Fence.Lineage = "second"; d.shown.Revision = 1 })
}

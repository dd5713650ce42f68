package market

import (
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// provider is the state of a cluster as a provider: its newest measurement, its pools, offers and sales.
type provider struct {
	cluster  string
	slot     int
	measured *Measured
	// observed is when the newest measurement came; 0: it is from a checkpoint, and nothing is
	// reserved by it.
	observed Time
	presence *presence // nil until its first lease
	record   *record   // nil until a promise was kept or broken
	pools    map[string]*poolState
	onSale   []*Offer // by name
	sold     sales
	dirty    bool // since it was published
}

func (s *State) provider(cluster string) *provider {
	p := s.providers[cluster]
	if p == nil {
		p = &provider{cluster: cluster, slot: len(s.slots), pools: map[string]*poolState{}}
		s.providers[cluster] = p
		s.slots = append(s.slots, p)
	}
	return p
}

func (s *State) touch(p *provider) {
	if !p.dirty {
		p.dirty, s.dirty = true, append(s.dirty, p)
	}
}

func (p *provider) pool(pool string) *poolState {
	b := p.pools[pool]
	if b == nil {
		b = &poolState{accounts: map[string]*account{}}
		p.pools[pool] = b
	}
	return b
}

// measure stores a measurement. Pools and accounts that it does not name are empty.
func (s *State) measure(p *provider, m *Measured) {
	p.measured = m
	for name := range m.Pools {
		p.pool(name)
	}
	for name, b := range p.pools {
		b.observe(m.Pools[name], func(consumer, id string) amounts.List { return s.held(id, consumer, p.cluster, name) })
		p.drop(name)
	}
	if s.Self == "" { // a gate knows its own sales
		p.sold.list(m, func(id string) Units { return s.counting(id, p.cluster).sold() })
	}
}

// forgetMeasurement drops the advertisement of a removed member. If it joins again, its sequence may begin
// anywhere.
func (s *State) forgetMeasurement(m *Member) {
	p := s.provider(m.Cluster)
	if s.Self != "" || m.State != api.MemberRemoved || p.measured == nil {
		return
	}
	s.measure(p, &Measured{})
	p.measured, p.observed = nil, 0
}

// drop drops a pool without measurement and accounts.
func (p *provider) drop(pool string) {
	if len(p.pools[pool].accounts) > 0 {
		return
	}
	measured := false
	if p.measured != nil {
		_, measured = p.measured.Pools[pool]
	}
	if !measured {
		delete(p.pools, pool)
	}
}

// observe stores the measurement of a pool. held returns the size of a reservation in our own records.
func (b *poolState) observe(m MeasuredPool, held func(consumer, id string) amounts.List) {
	was := b.measured
	b.measured = m
	for consumer := range was.Accounts {
		if m.Accounts[consumer] == nil {
			b.change(consumer, func(a *account) {
				a.list(nil, func(id string) amounts.List { return held(consumer, id) })
				a.used = nil
			})
		}
	}
	sameNames := slices.EqualFunc(was.Offered, m.Offered,
		func(a, b amounts.Amount) bool { return a.Resource == b.Resource })
	for consumer, listed := range m.Accounts {
		if listed != was.Accounts[consumer] || !sameNames {
			b.change(consumer, func(a *account) {
				a.list(listed.Commitments, func(id string) amounts.List { return held(consumer, id) })
				a.used = listed.Used.Only(m.Offered) // use of resources that are not offered does not count
			})
		}
	}
}

// maxIncarnationAhead is how far an agent's clock may be ahead of the broker's. Otherwise one advertisement
// with a stolen certificate could make all later ones of the cluster stale.
const maxIncarnationAhead = 24 * time.Hour

// Observe stores an advertisement: soft state, not an event. fresh is false for one from a
// checkpoint. Errors: StaleAdvertisement for an old one; Invalid for one from the future.
func (s *State) Observe(cluster string, m *Measured, now Time, fresh bool) error {
	p := s.provider(cluster)
	if most := int64(now.plus(maxIncarnationAhead)); s.Self == "" && fresh && m.Sequence.Incarnation > most {
		return api.Invalid("sequence", "the incarnation %d is more than %s ahead of the broker's clock, which is at %d",
			m.Sequence.Incarnation, maxIncarnationAhead, int64(now)).Fix("set the cluster's clock, and start its agent again")
	}
	if p.measured != nil && !m.Sequence.After(p.measured.Sequence) && p.observed != 0 {
		return api.Errorf(api.CodeStaleAdvertisement, "advertisement %d.%d is not newer than %d.%d",
			m.Sequence.Incarnation, m.Sequence.Number, p.measured.Sequence.Incarnation, p.measured.Sequence.Number).
			Fix("send the whole advertisement with a higher sequence")
	}
	if m.renews != nil && m.renews == p.measured { // the same accounts
		p.measured, m.renews = m, nil
	} else {
		m.renews = nil
		s.measure(p, m)
	}
	if fresh {
		p.observed = now
	}
	s.awake.newest = max(s.awake.newest, s.awake.at(now))
	s.touch(p)
	return nil
}

// RestartLeases restarts every lease: after a start, a pause or a jump of the clock, no agent could be heard.
func (s *State) RestartLeases(now Time) {
	for _, p := range s.slots {
		if p.observed != 0 {
			p.observed = now
			s.touch(p)
		}
	}
}

// TakeMeasurements copies the soft state of the market that this one replaces.
func (s *State) TakeMeasurements(from *State) {
	s.rejected = from.rejected
	for _, old := range from.slots {
		if old.measured != nil {
			p := s.provider(old.cluster)
			s.measure(p, old.measured)
			p.observed = old.observed
			s.touch(p)
		}
	}
}

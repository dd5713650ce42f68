package market

import (
	"crypto/subtle"
	"maps"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Listing is the published state of one cluster at one revision: the input of decisions. It is immutable.
type Listing struct {
	Cluster string
	// Slot is the number of the cluster in its market, from 0. It never changes.
	Slot   int
	Member *Member
	// Measured is nil before the first advertisement.
	Measured *Measured
	// FreshUntil is when its lease ends; 0 if it has not advertised since this market started.
	FreshUntil Time
	// Leased says that it has had a lease. Clients without an agent never have one.
	Leased bool
	// Uptime is in parts per million, as of the newest advertisement, or about now if the lease ended; or
	// UnknownUptime.
	Uptime int64
	// Silent is how long its lease has been over, in milliseconds of the broker's own clock, at the
	// time of Uptime.
	Silent Time
	// Honoured is the share of its promises of the last 30 days that it kept, in parts per million,
	// or UnknownRecord.
	Honoured int64
	Pools    []PoolListing
	// Offers are those on sale, by name; Sold is how many units of their plans are sold.
	Offers []*Offer
	Sold   map[plan]int64
}

// PoolListing is the published state of a pool.
type PoolListing struct {
	Name                string
	Reserved, Available amounts.List
	// Unfilled is what is reserved and not used yet. Only a pool with shapes has it.
	Unfilled amounts.List
	// Owner is the consumer to whom the pool is dedicated. Tenants is how many consumers have
	// something of it, Tenant the only one.
	Owner   string
	Tenants int
	Tenant  string
	// Accounts are the totals of members. Nil: the terms have no limit per consumer.
	Accounts map[string]amounts.List
}

// Pool returns the listing of a pool, or nil.
func (l *Listing) Pool(name string) *PoolListing {
	for i := range l.Pools {
		if l.Pools[i].Name == name {
			return &l.Pools[i]
		}
	}
	return nil
}

// Fresh reports whether its lease is alive.
func (l *Listing) Fresh(now Time) bool { return now < l.FreshUntil }

// Away reports whether its agent has gone: it had a lease, and has none.
func (l *Listing) Away(now Time) bool { return l.Leased && !l.Fresh(now) }

// Active reports whether it is an admitted member.
func (l *Listing) Active() bool { return l.Member != nil && l.Member.State == api.MemberActive }

// Gone reports whether it is no member. Decisions do not count it.
func (l *Listing) Gone() bool {
	return l.Member == nil || l.Member.State == api.MemberRemoved || l.Member.State == api.MemberRevoked
}

// Card returns the cluster's card, or an empty one.
func (l *Listing) Card() api.Card {
	if l.Member == nil || l.Member.Card == nil {
		return api.Card{Cluster: l.Cluster}
	}
	return *l.Member.Card
}

// View is the listings of a market at one revision, in the order of slots. It is immutable.
type View struct {
	Revision uint64
	// Waiting is how many reservations wait, Queued how often the queue changed since the market was loaded.
	Waiting int
	Queued  uint64
	// Operators says which certificates of operators are valid; nil: all.
	Operators *Operators
	tokens    map[string]*Token // shared between views until one changes
	listings  []*Listing
	slots     map[string]int // by cluster; shared between views until a cluster is added
}

// Len is the number of clusters.
func (v *View) Len() int { return len(v.listings) }

// At returns the listing in a slot.
func (v *View) At(slot int) *Listing { return v.listings[slot] }

// Changed calls do with the slot of each listing that differs in an older view of the same market.
func (v *View) Changed(since *View, do func(slot int)) {
	for slot, l := range v.listings {
		if slot >= since.Len() || l != since.At(slot) {
			do(slot)
		}
	}
}

// Listing returns that of a cluster, or nil.
func (v *View) Listing(cluster string) *Listing {
	if slot, ok := v.slots[cluster]; ok {
		return v.At(slot)
	}
	return nil
}

// HasToken reports whether a join token has this secret, also if it was used or has expired.
func (v *View) HasToken(id, secretHash string) bool {
	t := v.tokens[id]
	return t != nil && subtle.ConstantTimeCompare([]byte(t.Hash), []byte(secretHash)) == 1
}

// Publish returns the next view. last is the one before, or nil.
func (s *State) Publish(last *View) *View {
	if last == nil {
		last = &View{slots: map[string]int{}}
	}
	if s.shownTokens == nil {
		s.shownTokens = maps.Clone(s.tokens)
	}
	next := &View{
		tokens: s.shownTokens, Revision: s.Revision, Waiting: len(s.waiting), Queued: s.queued, Operators: s.operators,
		listings: make([]*Listing, len(s.slots)), slots: last.slots,
	}
	copy(next.listings, last.listings)
	if len(next.listings) > len(last.listings) {
		next.slots = maps.Clone(last.slots)
	}
	for _, p := range s.dirty {
		p.dirty = false
		next.listings[p.slot] = s.listing(p)
		if p.slot >= len(last.listings) {
			next.slots[p.cluster] = p.slot
		}
	}
	s.dirty = s.dirty[:0]
	return next
}

// sumAccounts returns the account totals of members. It walks members or accounts, whichever are fewer.
func (s *State) sumAccounts(b *poolState) map[string]amounts.List {
	out := make(map[string]amounts.List, min(len(b.accounts), len(s.members)))
	if len(s.members) < len(b.accounts) {
		for consumer := range s.members {
			if a := b.accounts[consumer]; a != nil {
				out[consumer] = a.total()
			}
		}
		return out
	}
	for consumer, a := range b.accounts {
		if s.members[consumer] != nil {
			out[consumer] = a.total()
		}
	}
	return out
}

func (s *State) listing(p *provider) *Listing {
	l := &Listing{
		Cluster: p.cluster, Slot: p.slot, Member: s.members[p.cluster], Measured: p.measured,
		Uptime: p.presence.uptime(s.awake.newest), Honoured: p.record.honoured(s.Time),
	}
	if p.presence != nil && p.presence.Lost {
		l.Silent = max(0, s.awake.newest-p.presence.At)
	}
	if p.observed != 0 {
		l.FreshUntil = p.observed.plus(Lease)
	}
	l.Leased = p.presence != nil || p.observed != 0
	l.Offers, l.Sold = p.onSale, p.sold.show()
	limited := p.measured != nil && p.measured.Terms != nil && p.measured.Terms.MaxPerConsumer != nil
	l.Pools = make([]PoolListing, 0, len(p.pools))
	for name, b := range p.pools {
		pool := PoolListing{Name: name, Reserved: b.reserved, Owner: b.owner(""), Tenants: b.tenants,
			Tenant: b.tenant()}
		if p.measured != nil { // without a measurement nothing is overcommitted
			pool.Available = b.available()
		}
		if len(b.measured.Shapes) > 0 {
			pool.Unfilled = b.unfilled()
		}
		if limited {
			pool.Accounts = s.sumAccounts(b)
		}
		l.Pools = append(l.Pools, pool)
	}
	slices.SortFunc(l.Pools, func(a, b PoolListing) int { return strings.Compare(a.Name, b.Name) })
	return l
}

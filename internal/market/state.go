package market

import (
	"cmp"
	"time"

	"github.com/google/btree"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Times of the market.
const (
	// Retention is how long a reservation that is over, and its idempotency key, is kept.
	Retention = 24 * time.Hour
	// HoldTime is how long capacity is held for a provider's answer, or for the user's confirmation.
	HoldTime = 60 * time.Second
	// DecideTime is the longest from a request to Reserved, over all providers tried.
	DecideTime = 5 * time.Minute
	// MaxApproval and MinApproval bound the time for an admin's approval.
	MaxApproval = 24 * time.Hour
	MinApproval = time.Minute
	// FreeTime is how long a provider may take to report that a reservation is free: at a broker
	// from the begin of its end, in a consumer's agent from the end of its time.
	FreeTime = time.Hour
	// Lease is how long an advertisement is fresh.
	Lease = 90 * time.Second
	// SkewGrace allows for clocks that differ: a provider ends a reservation that much later than
	// the consumer, and its acceptance binds that much longer than the assignment.
	SkewGrace = 30 * time.Second
)

// State is a market at a revision. Only its owner may use it. Others may read the immutable records and the
// [Listing]s that it publishes.
type State struct {
	// Self is the cluster whose agent this market belongs to; empty at a broker.
	Self string
	// Revision counts the events applied.
	Revision uint64
	// Time is that of the newest event.
	Time Time

	members      map[string]*Member
	operators    *Operators
	tokens       map[string]*Token
	shownTokens  map[string]*Token // a copy for views; nil: it is out of date
	reservations map[string]*Reservation
	keys         map[ownKey]string // the ID of the reservation, or of one of its parts
	offers       map[string]*Offer // by digest
	onSale       map[string]*Offer // by key
	madeFrom     map[string]int    // reservations, by the digest of their offer
	offerBytes   map[string]int64  // by seller
	parties      map[string]*party
	pairs        map[pair]int                           // the number of reservations that bind them
	made         map[objectName]map[string]*Reservation // by the object that made them, then by ID
	spent        map[string]Spent                       // by ID
	passed       map[string]Passed
	providers    map[string]*provider
	slots        []*provider // in the order they became known
	counts       map[api.State]int
	waiting      []*Reservation // in the order in which they are served
	queued       uint64         // how often waiting changed
	tries        map[string]Why // of waiting reservations
	due          *btree.BTreeG[*due]
	dirty        []*provider // to publish, each once
	awake        awake
	resold       []string // sellers: see Resold
	rejected     rejections
	early        int64 // reservations that were forgotten before their time
}

// New makes the empty market of a broker, or of the agent of cluster self.
func New(self string) *State {
	return &State{
		Self:         self,
		members:      map[string]*Member{},
		tokens:       map[string]*Token{},
		reservations: map[string]*Reservation{},
		keys:         map[ownKey]string{},
		offers:       map[string]*Offer{},
		onSale:       map[string]*Offer{},
		madeFrom:     map[string]int{},
		offerBytes:   map[string]int64{},
		parties:      map[string]*party{},
		pairs:        map[pair]int{},
		made:         map[objectName]map[string]*Reservation{},
		spent:        map[string]Spent{},
		passed:       map[string]Passed{},
		providers:    map[string]*provider{},
		counts:       map[api.State]int{},
		tries:        map[string]Why{},
		due:          btree.NewG(indexDegree, (*due).before),
		rejected:     newRejections(),
		awake:        awake{asleep: true},
	}
}

// Reservation returns the record, or that of a remembered rejected request, or nil.
func (s *State) Reservation(id string) *Reservation {
	if r := s.reservations[id]; r != nil {
		return r
	}
	return s.rejected.byID[id]
}

// Member returns the record, or nil.
func (s *State) Member(cluster string) *Member { return s.members[cluster] }

// Apply applies an event. It only assigns.
func (s *State) Apply(e Event) {
	s.Revision++
	s.Time = max(s.Time, e.Time)
	switch {
	case e.Member != nil:
		old := s.members[e.Member.Cluster]
		s.members[e.Member.Cluster] = e.Member
		s.queueDebts(e.Member, old)
		s.forgetPresence(e.Member)
		s.forgetMeasurement(e.Member)
		if e.Member.State == api.MemberRemoved {
			s.rejected.forget(e.Member.Cluster)
		}
		s.touch(s.provider(e.Member.Cluster))
	case e.Token != nil:
		s.putToken(e.Token)
	case e.Reservation != nil:
		s.recordPromise(e.Reservation.Reservation)
		s.put(e.Reservation, s.Revision)
	case e.Offer != nil:
		s.putOffer(e.Offer)
	case e.Forget != nil:
		for _, id := range e.Forget.Reservations {
			if r := s.reservations[id]; r != nil {
				delete(s.reservations, id)
				s.forgetKey(r)
				s.await(r.due, 0)
				s.updateIndex(r, nil)
				if e.Time < r.Changed.plus(s.retention()) {
					s.early++
				}
				s.counts[r.State]--
				s.countOffer(r, -1)
				s.updateQueue(r, nil)
				s.expireCrowded(r.Consumer)
			}
		}
		for _, id := range e.Forget.Tokens {
			if t := s.tokens[id]; t != nil {
				delete(s.tokens, id)
				s.shownTokens = nil
				s.await(t.due, 0)
			}
		}
		s.spend(e.Forget.Spent, e.Time)
		s.replaceSpent(e.Forget.Passed, e.Time)
		for _, digest := range e.Forget.Offers {
			s.forgetOffer(digest)
		}
	case e.Operators != nil:
		s.operators = e.Operators
	case e.Leases != nil:
		s.noticed(e.Leases, e.Time)
	}
}

// put replaces the record of a reservation, and updates accounts and indexes.
func (s *State) put(e *ReservationEvent, revision uint64) {
	r, old := e.Reservation, s.reservations[e.ID]
	if r.Revision, r.Why = revision, e.Why; r.Why == nil && old != nil {
		r.Why = old.Why
	}
	if old != nil {
		s.counts[old.State]--
	}
	s.updateAccounts(old, -1)
	if r.Sale != nil {
		r.Offer = s.offers[r.Sale.Offer]
	}
	r.Bytes = footprint(r)
	s.countOffer(old, -1)
	s.countOffer(r, 1)
	s.forgetUnsold(old)
	s.counts[r.State]++
	s.updateQueue(old, r)
	s.updateAccounts(r, 1)
	s.reservations[r.ID] = r
	s.updateIndex(old, r)
	if r.Key != "" {
		s.keys[ownKey{r.Consumer, r.Key}] = r.ID
	}
	if old != nil {
		r.due = old.due
	} else {
		r.due = &due{id: r.ID}
	}
	s.await(r.due, s.next(r))
	s.expireCrowded(r.Consumer)
}

func (s *State) putToken(t *Token) {
	if old := s.tokens[t.ID]; old != nil {
		t.due = old.due
	} else {
		t.due = &due{id: t.ID, token: true}
	}
	s.tokens[t.ID], s.shownTokens = t, nil
	s.await(t.due, t.forgetAt())
}

// forgetKey drops the key of a forgotten reservation, unless another part of the same request remains.
func (s *State) forgetKey(r *Reservation) {
	key := ownKey{r.Consumer, r.Key}
	if s.keys[key] != r.ID {
		return
	}
	delete(s.keys, key)
	if part := s.firstPart(r); part != nil {
		s.keys[key] = part.ID
	}
}

// madeBy returns the reservation of a key, or nil. Of a split request it is the first remaining part.
func (s *State) madeBy(key ownKey) *Reservation {
	r := s.reservations[s.keys[key]]
	if r == nil {
		return nil
	}
	return cmp.Or(s.firstPart(r), r)
}

// firstPart returns the first remaining part of a split request. Nil: none remains, or it is not
// split.
func (s *State) firstPart(r *Reservation) *Reservation {
	for _, id := range r.Group {
		if part := s.reservations[id]; part != nil && part.Key == r.Key {
			return part
		}
	}
	return nil
}

// ownKey is an idempotency key of a consumer.
type ownKey struct{ consumer, key string }

// updateAccounts adds what a reservation takes of its provider (sign 1), or removes it (-1). r may
// be nil.
func (s *State) updateAccounts(r *Reservation, sign int64) {
	if r == nil || !s.accountsFor(r) {
		return
	}
	p := s.provider(r.Provider)
	p.pool(r.Pool).change(r.Consumer, func(a *account) { a.hold(r.ID, r.Usage(), sign) })
	p.sold.hold(r.ID, r.sold(), sign)
	if r.Dedicated() {
		p.pool(r.Pool).dedicate(r.Consumer, sign)
	}
	p.drop(r.Pool)
	s.touch(p)
}

// counting returns our own record of a reservation if it counts at a provider, or nil.
func (s *State) counting(id, provider string) *Reservation {
	if r := s.reservations[id]; r != nil && r.Provider == provider && s.accountsFor(r) {
		return r
	}
	return nil
}

// held returns what a reservation takes of an account by our own records; nil: nothing.
func (s *State) held(id, consumer, provider, pool string) amounts.List {
	r := s.counting(id, provider)
	if r == nil || r.Consumer != consumer || r.Pool != pool {
		return nil
	}
	return r.Usage()
}

// accountsFor reports whether this market accounts for a reservation at its provider: an agent only
// for itself.
func (s *State) accountsFor(r *Reservation) bool {
	return r.State.Counts() && r.Provider != "" && (s.Self == "" || s.Self == r.Provider)
}

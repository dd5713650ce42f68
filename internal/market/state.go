package market

import (
	"maps"
	"slices"
	"time"

	"github.com/google/btree"

	"github.com/bourse-dev/bourse/api"
)

// Times of the market. Deadlines that a caller may set have these as defaults.
const (
	// Retention is how long what is over, and its idempotency key, is remembered.
	Retention = 24 * time.Hour
	// HoldTime is how long capacity is held for one provider's answer or the user's confirmation.
	HoldTime = 60 * time.Second
	// DecideTime is the longest from a request to Reserved, over all providers tried.
	DecideTime = 5 * time.Minute
	// MaxApproval is the longest that a person at a provider may take to approve; MinApproval the shortest that can be promised.
	MaxApproval = 24 * time.Hour
	MinApproval = time.Minute
	// FreeTime is how long the word that nothing of a reservation is left is waited for: at a broker from when it began to end, in a
	// consumer's agent from when its time is over.
	FreeTime = time.Hour
	// Lease is how long an advertisement is fresh.
	Lease = 90 * time.Second
	// SkewGrace is how much later than the consumer a provider ends a reservation whose time is
	// over, and how much longer its acceptance binds than the assignment: clocks differ.
	SkewGrace = 30 * time.Second
)

// State is a market at a revision. Only its owner may touch it; what others may
// read are the immutable records in it and the [Listing]s it publishes.
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
	reservations map[string]*Reservation
	keys         map[ownKey]string // the reservation that it made, or one of its parts
	offers       map[string]*Offer // by digest
	onSale       map[string]*Offer // by key
	madeFrom     map[string]int    // reservations, by the digest of their offer
	offerBytes   map[string]int64  // by seller
	parties      map[string]*party
	pairs        map[pair]int     // how many reservations bind them
	crowded      []string         // consumers of whom more is over than is kept: see crowd
	spent        map[string]Spent // what is over and could be shown again, by ID
	passed       map[string]Passed
	providers    map[string]*provider
	slots        []*provider // in the order they became known
	counts       map[api.State]int
	waiting      []*Reservation // in the order in which they are served
	queued       uint64         // how often that changed
	tries        map[string]Why // of those that wait, since the start
	due          *btree.BTreeG[*due]
	dirty        []*provider // to publish, each once
	awake        awake
	resold       []string // sellers, of a broker: see Resold
	rejected     rejections
	early        int64 // how many were forgotten before their time
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

// Reservation returns the record, or that of a rejected request that is remembered, or nil.
func (s *State) Reservation(id string) *Reservation {
	if r := s.reservations[id]; r != nil {
		return r
	}
	return s.rejected.byID[id]
}

// Member returns the record, or nil.
func (s *State) Member(cluster string) *Member { return s.members[cluster] }

// Apply makes an event true.
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
				s.countSale(r, -1)
				s.updateQueue(r, nil)
			}
		}
		for _, id := range e.Forget.Tokens {
			if t := s.tokens[id]; t != nil {
				delete(s.tokens, id)
				s.await(t.due, 0)
			}
		}
		s.spend(e.Forget.Spent, e.Time)
		s.pass(e.Forget.Passed, e.Time)
		for _, digest := range e.Forget.Offers {
			s.forgetOffer(digest)
		}
		s.calm()
	case e.Operators != nil:
		s.operators = e.Operators
	case e.Leases != nil:
		s.noticed(e.Leases, e.Time)
	}
}

// put makes e the record of its reservation, moving what it takes from where the
// old record took it.
func (s *State) put(e *ReservationEvent, revision uint64) {
	r, old := e.Reservation, s.reservations[e.ID]
	if r.Revision, r.Why = revision, e.Why; r.Why == nil && old != nil {
		r.Why = old.Why
	}
	if old != nil {
		s.counts[old.State]--
		if old.State.Counts() {
			s.account(old, old.Takes(), nil)
		}
	}
	if r.Sale != nil {
		r.Offer = s.offers[r.Sale.Offer]
	}
	r.Bytes = footprint(r)
	s.countSale(old, -1)
	s.countSale(r, 1)
	s.forgetUnsold(old)
	s.counts[r.State]++
	s.updateQueue(old, r)
	if r.State.Counts() {
		s.account(r, nil, r.Takes())
	}
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
}

func (s *State) putToken(t *Token) {
	if old := s.tokens[t.ID]; old != nil {
		t.due = old.due
	} else {
		t.due = &due{id: t.ID, token: true}
	}
	s.tokens[t.ID] = t
	s.await(t.due, t.useless())
}

// forgetKey forgets the key of a reservation that was forgotten, unless another part of the same request remains.
func (s *State) forgetKey(r *Reservation) {
	key := ownKey{r.Consumer, r.Key}
	if s.keys[key] != r.ID {
		return
	}
	delete(s.keys, key)
	for _, id := range r.Group {
		if part := s.reservations[id]; part != nil && part.Key == r.Key {
			s.keys[key] = id
			return
		}
	}
}

// madeBy returns what a key made, or nil: of a split request the first part that remains.
func (s *State) madeBy(key ownKey) *Reservation {
	r := s.reservations[s.keys[key]]
	if r == nil {
		return nil
	}
	for _, id := range r.Group {
		if part := s.reservations[id]; part != nil && part.Key == r.Key {
			return part
		}
	}
	return r
}

// ownKey is an idempotency key, of which each consumer has its own.
type ownKey struct{ consumer, key string }

// account makes size what the reservation takes of its provider, in the place of before.
func (s *State) account(r *Reservation, before, size Amounts) {
	if !s.keepsBooks(r.Provider) {
		return
	}
	p := s.provider(r.Provider)
	p.book(r.Pool).change(r.Consumer, func(a *account) { a.hold(r.ID, before, size) })
	p.drop(r.Pool)
	s.touch(p)
}

// held is what our own books say that a reservation takes of a consumer's account; nil: nothing.
func (s *State) held(id, consumer, provider, pool string) Amounts {
	r := s.reservations[id]
	if r == nil || !r.State.Counts() || r.Consumer != consumer || r.Provider != provider || r.Pool != pool || !s.keepsBooks(provider) {
		return nil
	}
	return r.Takes()
}

// keepsBooks says whether a provider's books are here: in an agent only what it provides itself counts.
func (s *State) keepsBooks(provider string) bool {
	return provider != "" && (s.Self == "" || s.Self == provider)
}

func (s *State) sortedIDs() []string { return slices.Sorted(maps.Keys(s.reservations)) }

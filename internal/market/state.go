package market

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

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
	taken        map[string]*taken // by consumer; of none of them nothing
	waiting      []*Reservation    // in the order in which they are served
	queued       uint64            // how often that changed
	tries        map[string]Why    // of those that wait, since the start
	due          dueQueue
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
		taken:        map[string]*taken{},
		tries:        map[string]Why{},
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
		s.oweAll(e.Member, old)
		s.forgetPresence(e.Member)
		s.forgetMeasurement(e.Member)
		if e.Member.State == api.MemberRemoved {
			s.rejected.forget(e.Member.Cluster)
		}
		s.touch(s.provider(e.Member.Cluster))
	case e.Token != nil:
		s.putToken(e.Token)
	case e.Reservation != nil:
		s.promised(e.Reservation.Reservation)
		s.put(e.Reservation, s.Revision)
	case e.Offer != nil:
		s.putOffer(e.Offer)
	case e.Forget != nil:
		for _, id := range e.Forget.Reservations {
			if r := s.reservations[id]; r != nil {
				delete(s.reservations, id)
				s.forgetKey(r)
				s.await(r.due, 0)
				s.index(r, nil)
				if e.Time < r.Changed.plus(s.retention()) {
					s.early++
				}
				s.counts[r.State]--
				s.count(r, -1)
				s.take(r, nil)
				s.queue(r, nil)
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
	s.count(old, -1)
	s.count(r, 1)
	s.forgetUnsold(old)
	s.counts[r.State]++
	s.take(old, r)
	s.queue(old, r)
	if r.State.Counts() {
		s.account(r, nil, r.Takes())
	}
	s.reservations[r.ID] = r
	s.index(old, r)
	if r.Key != "" {
		s.keys[ownKey{r.Consumer, r.Key}] = r.ID
	}
	if old != nil {
		r.due = old.due
	} else {
		r.due = &due{id: r.ID, place: absent}
	}
	s.await(r.due, s.next(r))
}

func (s *State) putToken(t *Token) {
	if old := s.tokens[t.ID]; old != nil {
		t.due = old.due
	} else {
		t.due = &due{id: t.ID, token: true, place: absent}
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

// snapshot is the form of a state in a journal: its durable records, sorted.
type snapshot struct {
	Revision     uint64    `json:"revision"`
	Time         Time      `json:"time"`
	Members      []*Member `json:"members,omitempty"`
	Tokens       []*Token  `json:"tokens,omitempty"`
	Offers       []*Offer  `json:"offers,omitempty"`
	Spent        []Spent   `json:"spent,omitempty"`
	Passed       []Passed  `json:"passed,omitempty"`
	Reservations []kept    `json:"reservations,omitempty"`
	// Awake is the broker's clock as journalled last, Presences what happened on it.
	Awake     Time        `json:"awake,omitempty"`
	Presences []*presence `json:"presences,omitempty"`
	// Records are how providers kept their promises.
	Records []*record `json:"records,omitempty"`
	// Operators is nil until some of their certificates were ended.
	Operators *Operators `json:"operators,omitempty"`
}

type kept struct {
	ReservationEvent
	Revision uint64 `json:"revision"`
}

// Snapshot collects the durable records of the state. What it returns may be called on
// any goroutine, later, to encode them.
func (s *State) Snapshot() func() ([]byte, error) {
	out, size := s.collect(), int64(4096)
	for _, k := range out.Reservations {
		size += k.Bytes
	}
	return func() ([]byte, error) {
		w := &encoder{b: make([]byte, 0, size)}
		w.snapshot(out.sort())
		return w.b, w.err
	}
}

// SnapshotTo collects the same, to be written piece by piece, so that it is never in memory as a whole.
func (s *State) SnapshotTo() func(io.Writer) error {
	out := s.collect()
	return func(to io.Writer) error {
		w := &encoder{to: to}
		w.snapshot(out.sort())
		w.flush(0)
		return w.err
	}
}

func (s *State) collect() snapshot {
	out := snapshot{Revision: s.Revision, Time: s.Time, Awake: s.awake.told}
	out.Operators = s.operators
	out.Members, out.Tokens, out.Offers = s.Members(), s.Tokens(), s.Offers()
	out.Spent, out.Passed = s.allSpent(), s.allPassed()
	out.Reservations = make([]kept, 0, len(s.reservations))
	for _, r := range s.reservations {
		out.Reservations = append(out.Reservations, kept{ReservationEvent{Reservation: r, Why: r.Why}, r.Revision})
	}
	for _, p := range s.slots {
		if p.presence != nil {
			out.Presences = append(out.Presences, p.presence)
		}
		if p.record != nil {
			out.Records = append(out.Records, p.record)
		}
	}
	return out
}

func (out snapshot) sort() snapshot {
	slices.SortFunc(out.Presences, func(a, b *presence) int { return cmp.Compare(a.Cluster, b.Cluster) })
	slices.SortFunc(out.Records, func(a, b *record) int { return cmp.Compare(a.Cluster, b.Cluster) })
	slices.SortFunc(out.Reservations, func(a, b kept) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Restore fills an empty state from a snapshot, reading its records with each; nil: one after the other.
func (s *State) Restore(data []byte, each Each) error {
	if each == nil {
		each = inTurn
	}
	if in, reservations, ok := decodeSnapshot(data, each); ok {
		if err := s.fill(in); err != nil {
			return err
		}
		if s.fillReservations(reservations, each) {
			return nil
		}
		*s = *New(s.Self)
	}
	in := snapshot{}
	if err := strictly(data, &in); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return s.fill(in)
}

func (s *State) fill(in snapshot) error {
	for _, m := range in.Members {
		if m == nil {
			return errors.New("snapshot: an empty member")
		}
		s.members[m.Cluster] = m
		s.touch(s.provider(m.Cluster))
	}
	for _, t := range in.Tokens {
		if t == nil {
			return errors.New("snapshot: an empty token")
		}
		s.putToken(t)
	}
	s.spend(in.Spent, 0)
	s.pass(in.Passed, 0)
	for _, o := range in.Offers { // before what was made from them
		if o == nil {
			return errors.New("snapshot: an empty offer")
		}
		s.putOffer(o)
	}
	for _, k := range in.Reservations {
		if k.Reservation == nil {
			return errors.New("snapshot: an empty reservation")
		}
		s.put(&k.ReservationEvent, k.Revision)
	}
	for _, p := range in.Presences {
		if p == nil {
			return errors.New("snapshot: an empty presence")
		}
		s.provider(p.Cluster).presence = p
		s.touch(s.provider(p.Cluster))
	}
	for _, r := range in.Records {
		if r == nil {
			return errors.New("snapshot: an empty record")
		}
		s.provider(r.Cluster).record = r
		s.touch(s.provider(r.Cluster))
	}
	s.awake.total, s.awake.newest, s.awake.told = in.Awake, in.Awake, in.Awake
	s.Revision, s.Time, s.operators = in.Revision, in.Time, in.Operators
	return nil
}

// fillReservations puts those of each piece while the next ones are read. Not ok: one of the pieces is odd.
func (s *State) fillReservations(pieces [][]byte, each Each) (ok bool) {
	ok = true
	read, odd := make([][]kept, len(pieces)), make([]bool, len(pieces))
	each(len(pieces), func(i int) { read[i], odd[i] = decodeKept(pieces[i]) }, func(i int) {
		if ok = ok && !odd[i]; !ok {
			return
		}
		if i == 0 { // the others have about as many
			s.reservations = make(map[string]*Reservation, len(pieces)*len(read[0]))
			s.keys = make(map[ownKey]string, len(pieces)*len(read[0]))
			s.due = slices.Grow(s.due, len(pieces)*len(read[0]))
		}
		for _, k := range read[i] {
			s.put(&k.ReservationEvent, k.Revision)
		}
		read[i] = nil
	})
	return ok
}

func (s *State) sortedIDs() []string { return slices.Sorted(maps.Keys(s.reservations)) }

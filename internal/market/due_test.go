package market_test

import (
	"fmt"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// members is a broker's market with two members.
func members() *market.State {
	s := market.New("")
	for _, cluster := range []string{"paris", "rome"} {
		s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: cluster, State: api.MemberActive, Key: "key-0"}})
	}
	return s
}

// bound is a reservation of paris at rome that ends in a year.
func bound(i int, state api.State, at market.Time) *market.Reservation {
	return &market.Reservation{
		ID: fmt.Sprint("r-",
			i), Consumer: "paris", Provider: "rome", Pool: "general", State: state, Generation: 1, Created: noon, Changed: at, Size: cpu(1),
		HeldUntil: at + 60_000, Deadline: at + 300_000, Until: noon + 365*24*3600_000,
	}
}

func apply(s *market.State, at market.Time, r *market.Reservation) {
	s.Apply(market.Event{Time: at, Reservation: &market.ReservationEvent{Reservation: r}})
}

// A member that shows its next key again and again leaves one entry for each of its holds, however
// many keys it shows before a tick.
func TestKeysThatFollowEachOtherQueueNothingTwice(t *testing.T) {
	const holds = 2000
	s := members()
	for i := range holds {
		apply(s, noon, bound(i, api.Held, noon))
	}
	for key := range 5 {
		s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: "paris",
			State: api.MemberActive, Key: fmt.Sprint("key-", key+1), Rekeyed: s.Revision}})
		if s.Queued() != holds {
			t.Fatalf("after %d keys %d entries wait for %d holds", key+1, s.Queued(), holds)
		}
	}
	if ids := s.Misplaced(); len(ids) > 0 {
		t.Errorf("%d are not due when they should be", len(ids))
	}
	// Another key costs the list of the holds and a look at each: no entry is made or moved.
	if per := allocated(func() {
		s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: "paris",
			State: api.MemberActive, Key: "last", Rekeyed: s.Revision}})
	}) / holds; per > 64 {
		t.Errorf("another key allocates %d bytes for each hold", per)
	}
	ticks := 0
	for out, _ := market.Decide(s, market.Tick{}, noon); len(out.Events) > 0; out, _ = market.Decide(s,
		market.Tick{}, noon) {
		for _, e := range out.Events {
			s.Apply(e)
		}
		if ticks++; ticks > holds {
			t.Fatal("more is done than is owed")
		}
	}
	if ids := s.Misplaced(); ticks != holds || s.Queued() != holds || len(ids) > 0 {
		t.Errorf("%d of %d holds are signed again, %d entries wait, %d of them are wrong", ticks, holds, s.Queued(), len(ids))
	}
}

// A reservation that is resized again and again has one entry.
func TestChangesQueueNothingTwice(t *testing.T) {
	const reservations = 2000
	s, at := members(), noon
	for i := range reservations {
		apply(s, at, bound(i, api.Reserved, at))
	}
	for round := range 6 {
		for i := range reservations {
			at++
			offered := bound(i, api.Reserved, at)
			offered.Change = &market.Change{Generation: int64(round + 2),
				Size: cpu(2), Until: offered.Until, Assignment: "x", HeldUntil: at + 60_000}
			apply(s, at, offered)
			apply(s, at, bound(i, api.Reserved, at))
		}
	}
	if ids := s.Misplaced(); s.Queued() != reservations || len(ids) > 0 {
		t.Errorf("%d entries wait for %d reservations, %d of them are wrong", s.Queued(), reservations, len(ids))
	}
}

// What is forgotten leaves no entry, nor does what a member owes that was removed.
func TestWhatIsForgottenWaitsForNothing(t *testing.T) {
	s := members()
	s.Apply(market.Event{Time: noon, Token: &market.Token{ID: "token", Expires: noon + 1}})
	for i := range 10 {
		apply(s, noon, bound(i, api.Held, noon))
	}
	s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: "rome", State: api.MemberRemoved}})
	if ids := s.Misplaced(); s.Queued() != 11 || len(ids) > 0 {
		t.Errorf("%d entries wait, %v are wrong", s.Queued(), ids)
	}
	forgotten := market.Forget{Tokens: []string{"token", "unknown"}}
	for i := range 10 {
		forgotten.Reservations = append(forgotten.Reservations, fmt.Sprint("r-", i))
	}
	s.Apply(market.Event{Time: noon, Forget: &forgotten})
	if s.Queued() != 0 {
		t.Errorf("%d entries wait for what is forgotten", s.Queued())
	}
}

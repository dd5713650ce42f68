package market

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bourse-dev/bourse/internal/payload"
)

// snapshot is a state in a journal: its durable records, sorted.
type snapshot struct {
	Revision     uint64    `json:"revision"`
	Time         Time      `json:"time"`
	Members      []*Member `json:"members,omitempty"`
	Tokens       []*Token  `json:"tokens,omitempty"`
	Offers       []*Offer  `json:"offers,omitempty"`
	Spent        []Spent   `json:"spent,omitempty"`
	Passed       []Passed  `json:"passed,omitempty"`
	Reservations []kept    `json:"reservations,omitempty"`
	// Awake is the broker's clock, as last journalled. Presences are the leases by that clock.
	Awake     Time        `json:"awake,omitempty"`
	Presences []*presence `json:"presences,omitempty"`
	// Records are the records of providers.
	Records []*record `json:"records,omitempty"`
	// Operators is nil until an operator's certificate was ended.
	Operators *Operators `json:"operators,omitempty"`
}

type kept struct {
	ReservationEvent
	Revision uint64 `json:"revision"`
}

// Snapshot collects the durable records of the state. The returned function encodes them, on any goroutine,
// and writes them piece by piece.
func (s *State) Snapshot() func(io.Writer) error {
	out := snapshot{Revision: s.Revision, Time: s.Time, Awake: s.awake.told}
	out.Operators = s.operators
	out.Members, out.Tokens, out.Offers = s.Members(), s.Tokens(), s.Offers()
	out.Spent, out.Passed = byKey(s.spent), byKey(s.passed)
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
	return func(to io.Writer) error {
		slices.SortFunc(out.Presences, func(a, b *presence) int { return cmp.Compare(a.Cluster, b.Cluster) })
		slices.SortFunc(out.Records, func(a, b *record) int { return cmp.Compare(a.Cluster, b.Cluster) })
		slices.SortFunc(out.Reservations, func(a, b kept) int { return cmp.Compare(a.ID, b.ID) })
		return payload.Write(to, out)
	}
}

// Restore fills an empty state from a snapshot.
func (s *State) Restore(data []byte) error {
	var in snapshot
	if err := payload.Read(data, &in, payload.Sharing()); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	s.reservations = make(map[string]*Reservation, len(in.Reservations))
	s.keys = make(map[ownKey]string, len(in.Reservations))
	if slices.Contains(in.Members, nil) || slices.Contains(in.Tokens, nil) || slices.Contains(in.Offers, nil) ||
		slices.Contains(in.Presences, nil) || slices.Contains(in.Records, nil) ||
		slices.ContainsFunc(in.Reservations, func(k kept) bool { return k.Reservation == nil }) {
		return errors.New("snapshot: an empty record")
	}
	for _, m := range in.Members {
		s.members[m.Cluster] = m
		s.touch(s.provider(m.Cluster))
	}
	for _, t := range in.Tokens {
		s.putToken(t)
	}
	s.spend(in.Spent, 0)
	s.replaceSpent(in.Passed, 0)
	for _, o := range in.Offers { // before what was made from them
		s.putOffer(o)
	}
	// the oldest first, as they were put
	slices.SortFunc(in.Reservations, func(a, b kept) int {
		return cmp.Compare(a.Revision, b.Revision)
	})
	for _, k := range in.Reservations {
		s.put(&k.ReservationEvent, k.Revision)
	}
	for _, p := range in.Presences {
		s.provider(p.Cluster).presence = p
		s.touch(s.provider(p.Cluster))
	}
	for _, r := range in.Records {
		s.provider(r.Cluster).record = r
		s.touch(s.provider(r.Cluster))
	}
	s.awake.total, s.awake.newest, s.awake.told = in.Awake, in.Awake, in.Awake
	s.Revision, s.Time, s.operators = in.Revision, in.Time, in.Operators
	return nil
}

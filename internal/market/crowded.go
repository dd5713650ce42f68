package market

import (
	"maps"
	"slices"
)

// A reservation that is over is kept for [Retention]: a repeat gets the same answer, and a party
// that was away learns the end. A broker keeps at most maxKeptBytes of one consumer, or
// minEndedBytes beside its live reservations. Beyond that it forgets the oldest ended ones early,
// but never one whose end the provider may not know ([Reservation.RememberUntil]): with its
// documents the provider could bring it back. Those count against the cap on bytes, like live
// reservations.
const (
	maxKeptBytes  = 18 << 20
	minEndedBytes = 2 << 20
)

// isCrowded reports whether a broker keeps too much of a consumer. An agent's market has its own
// bounds.
func (s *State) isCrowded(consumer string) bool {
	p := s.consumed(consumer)
	most := max(minEndedBytes, maxKeptBytes-p.bytes[borrowed]-p.bytes[unheard])
	return s.Self == "" && p.bytes[ended] > most
}

// expireCrowded makes the oldest ended record of a consumer due at once if too much is kept, and as usual
// otherwise.
func (s *State) expireCrowded(consumer string) {
	if oldest := s.oldest(consumer); oldest != nil {
		s.await(oldest.due, s.next(oldest))
	}
}

// consumedBytes is about how much memory all takes that the cluster consumes or consumed.
func (p *party) consumedBytes() int64 { return p.bytes[borrowed] + p.bytes[ended] + p.bytes[unheard] }

// BytesOf returns about how many bytes the reservations of a consumer take, and those of all consumers, with
// those that are over.
func (s *State) BytesOf(consumer string) (has, all int64) {
	for _, p := range s.parties {
		all += p.consumedBytes()
	}
	return s.consumed(consumer).consumedBytes(), all
}

// LargestConsumer returns the consumer whose reservations take the most bytes, with those that are over.
// It is empty if there are none.
func (s *State) LargestConsumer() (consumer string) {
	for _, name := range slices.Sorted(maps.Keys(s.parties)) {
		if s.parties[name].consumedBytes() > s.consumed(consumer).consumedBytes() {
			consumer = name
		}
	}
	return consumer
}

// MemoryUse shows the effect of the bounds on memory.
type MemoryUse struct {
	// Rejected is the number of remembered rejected requests.
	Rejected int
	// Largest is about how many bytes the live reservations of one consumer take at most.
	Largest int64
	// Early is how many reservations were forgotten before their time, since the market was loaded.
	Early int64
}

// MemoryUse returns the effect of the bounds on memory.
func (s *State) MemoryUse() MemoryUse {
	u := MemoryUse{Rejected: len(s.rejected.byID), Early: s.early}
	for _, p := range s.parties {
		u.Largest = max(u.Largest, p.bytes[borrowed])
	}
	return u
}

package market

import (
	"maps"
	"slices"
)

// What is over is kept for [Retention], so that a repeat gets the same answer and a party that was away learns how it ended. All that a
// broker keeps of one consumer takes maxKeptBytes at most, or minEndedBytes more than what is not over: beyond that the oldest of what
// is over is forgotten early. Never so an end that a provider may not have heard of (RememberUntil): without it the provider's documents
// would bring the reservation back. Those count against the cap on bytes, as what is not over does.
const (
	maxKeptBytes  = 18 << 20
	minEndedBytes = 2 << 20
)

// crowd notes that more is over of a consumer than a broker keeps. An agent's market has its own bounds.
func (s *State) crowd(consumer string) {
	if s.Self == "" && s.isCrowded(consumer) && !slices.Contains(s.crowded, consumer) {
		s.crowded = append(s.crowded, consumer)
	}
}

func (s *State) isCrowded(consumer string) bool {
	p := s.consumed(consumer)
	return p.bytes[ended] > max(minEndedBytes, maxKeptBytes-p.bytes[borrowed]-p.bytes[unheard])
}

// calm drops those of crowded of whom enough was forgotten.
func (s *State) calm() {
	for len(s.crowded) > 0 && !s.isCrowded(s.crowded[0]) {
		s.crowded = s.crowded[1:]
	}
}

// consumedBytes is about how much memory all takes that the cluster consumes or consumed.
func (p *party) consumedBytes() int64 { return p.bytes[borrowed] + p.bytes[ended] + p.bytes[unheard] }

// BytesOf returns about how many bytes the reservations of a consumer take, and those of all consumers, with those that are over.
func (s *State) BytesOf(consumer string) (has, all int64) {
	for _, p := range s.parties {
		all += p.consumedBytes()
	}
	return s.consumed(consumer).consumedBytes(), all
}

// Greediest returns the consumer whose reservations take the most bytes, with those that are over. It is empty if there are none.
func (s *State) Greediest() (consumer string) {
	for _, name := range slices.Sorted(maps.Keys(s.parties)) {
		if s.parties[name].consumedBytes() > s.consumed(consumer).consumedBytes() {
			consumer = name
		}
	}
	return consumer
}

// Kept is what a market keeps because of its bounds.
type Kept struct {
	// Rejected is how many rejected requests it remembers.
	Rejected int
	// Largest is about how many bytes the reservations of the consumer take that has most, of those that are not over.
	Largest int64
	// Early is how many reservations it forgot before their time, since it was loaded.
	Early int64
}

// Kept returns it.
func (s *State) Kept() Kept {
	k := Kept{Rejected: len(s.rejected.byID), Early: s.early}
	for _, p := range s.parties {
		k.Largest = max(k.Largest, p.bytes[borrowed])
	}
	return k
}

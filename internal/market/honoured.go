package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// A provider's record is the share of its promises of the last 30 days that it kept. A promise is what it bound itself to: it is
// kept if the reservation was Active and lasted until its time, its notice or its consumer ended it, and broken if the provider
// ended it before. To be asked, with a minute to answer, and say nothing is a promise broken, too: an advertisement promises as much.
//
// Only what the provider itself does counts against it; a consumer's word, that it was Active, can only count for it. A refusal counts for
// nothing, because whoever deals with a provider in two ways at once can cause one; so does what never became Active, because that is
// the consumer's word alone. What the broker adopted counts neither way, until the provider accepts a change of it here: the documents that
// it was shown may be of what is over. And however many promises there are between the same two, on one day one consumer counts once for
// and once against: so neither a friend nor a foe makes the record of others.

const (
	// recordDays is how long a promise is remembered, the present day included.
	recordDays = 30
	// recordFrom is from how many promises on a record is known.
	recordFrom = 5
	// UnknownRecord is the record of who has made fewer. It satisfies no bound.
	UnknownRecord = -1
)

// Promise is what became of the newest promise of a provider's.
type Promise struct {
	Provider string `json:"provider"`
	Kept     bool   `json:"kept"`
}

// recordEnd sets r.Promise when by ends r: kept, broken, or neither. Empty by: its time is over.
func (s *State) recordEnd(r *Reservation, by string, now Time) {
	switch {
	case s.Self != "" || !r.Bound() || r.Adopted != 0: // what became of an adopted one before, this broker did not see
	case by == r.Provider && s.awake.asleep && r.State == api.Reserved && now >= r.Changed.plus(HoldTime+SkewGrace):
		// The broker has just come back. It may never have told the provider that it recorded the acceptance, which then lapsed.
	case by == r.Provider && now.plus(SkewGrace) < r.EndsAt():
		if s.active(r.Consumer) == nil { // a provider may be done with who is no member any more
			r.Promise = &Promise{Provider: r.Provider}
		}
	case r.State == api.Active:
		r.Promise = &Promise{Provider: r.Provider, Kept: true}
	}
}

// recordSilence records a broken promise: the provider did not answer a hold that its consumer had signed. A late signature leaves the
// provider less than the usual time, so it promised nothing. Nor does silence count while the broker has just started.
func (s *State) recordSilence(r *Reservation, now Time) {
	if r.HeldUntil >= r.Changed.plus(HoldTime) && !s.awake.asleep && s.provider(r.Provider).alive(now) {
		r.Promise = &Promise{Provider: r.Provider}
	}
}

// record is how a provider kept its promises. Records are immutable.
type record struct {
	Cluster string `json:"cluster"`
	// Days are those on which something became of a promise, oldest first.
	Days []recordDay `json:"days"`
}

// recordDay counts the consumers whose promises were kept and broken on a day, counted from 1970.
type recordDay struct {
	Day    int32 `json:"day"`
	Kept   int64 `json:"kept,omitempty"`
	Broken int64 `json:"broken,omitempty"`
	// For and Against name them, sorted, as long as the day may go on.
	For     []string `json:"for,omitempty"`
	Against []string `json:"against,omitempty"`
}

// recordPromise adds a new r.Promise to the provider's record.
func (s *State) recordPromise(r *Reservation) {
	p := r.Promise
	if p == nil {
		return
	}
	if old := s.reservations[r.ID]; old != nil && old.Promise != nil && *old.Promise == *p {
		return
	}
	of := s.provider(p.Provider)
	of.record = of.record.with(p, r.Consumer, r.Changed)
	s.touch(of)
}

func (r *record) with(p *Promise, consumer string, at Time) *record {
	next := &record{Cluster: p.Provider}
	if r != nil {
		next.Days = slices.DeleteFunc(slices.Clone(r.Days), func(d recordDay) bool { return d.before(at) })
	}
	today := int32(at / day)
	if n := len(next.Days); n == 0 || next.Days[n-1].Day < today {
		if n > 0 {
			next.Days[n-1].For, next.Days[n-1].Against = nil, nil
		}
		next.Days = append(next.Days, recordDay{Day: today})
	}
	d := &next.Days[len(next.Days)-1]
	count, who := &d.Kept, &d.For
	if !p.Kept {
		count, who = &d.Broken, &d.Against
	}
	if i, counted := slices.BinarySearch(*who, consumer); !counted {
		*who = slices.Insert(slices.Clone(*who), i, consumer)
		*count++
	}
	return next
}

// before says whether a day is too long ago to count.
func (d recordDay) before(at Time) bool { return Time(d.Day) <= at/day-recordDays }

// honoured is the share of the promises that were kept, in parts per million, rounded down.
func (r *record) honoured(at Time) int64 {
	if r == nil {
		return UnknownRecord
	}
	var kept, all int64
	for _, d := range r.Days {
		if !d.before(at) {
			kept, all = kept+d.Kept, all+d.Kept+d.Broken
		}
	}
	if all < recordFrom {
		return UnknownRecord
	}
	return kept * 1_000_000 / all
}

package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// A provider's record is the share of its promises of the last 30 days that it kept. A promise is kept if the
// reservation was Active until its time, its notice or its consumer ended it. It is broken if the provider
// ended it before, or did not answer a signed assignment within a minute.
//
// Only the provider's own acts count against it. A refusal does not count, because others can cause
// one. Nor does an adopted reservation, until the provider accepts a change of it here: its
// documents may be old. On one day, one consumer counts once for and once against a provider. So
// neither a friend nor a foe makes its record.

const (
	// recordDays is how many days count, with the present one.
	recordDays = 30
	// recordFrom is the number of promises from which on a record is known.
	recordFrom = 5
	// UnknownRecord is the record with fewer promises. It satisfies no bound.
	UnknownRecord = -1
)

// Promise says whether a provider kept its newest promise of a reservation.
type Promise struct {
	Provider string `json:"provider"`
	Kept     bool   `json:"kept"`
}

// recordEnd sets r.Promise when by ends r: kept, broken, or neither. Empty by: its time is over.
func (s *State) recordEnd(r *Reservation, by string, now Time) {
	switch {
	case s.Self != "" || !r.Bound() || r.Adopted != 0: // this broker does not know what happened before
	case by == r.Provider && s.awake.asleep && r.State == api.Reserved && now >= r.Changed.plus(HoldTime+SkewGrace):
		// The broker was away. Perhaps the provider never learned of the commit, so that its
		// acceptance lapsed.
	case by == r.Provider && now.plus(SkewGrace) < r.EndsAt():
		if s.active(r.Consumer) == nil { // a provider may end reservations of former members
			r.Promise = &Promise{Provider: r.Provider}
		}
	case r.State == api.Active:
		r.Promise = &Promise{Provider: r.Provider, Kept: true}
	}
}

// recordSilence records a broken promise: the provider did not answer a signed hold. It does not
// count after a late signature, which leaves the provider too little time, nor while the broker has
// just started.
func (s *State) recordSilence(r *Reservation, now Time) {
	if r.HeldUntil >= r.Changed.plus(HoldTime) && !s.awake.asleep && s.provider(r.Provider).alive(now) {
		r.Promise = &Promise{Provider: r.Provider}
	}
}

// record is the record of a provider. It is immutable.
type record struct {
	Cluster string `json:"cluster"`
	// Days are the days with promises that were kept or broken, oldest first.
	Days []recordDay `json:"days"`
}

// recordDay counts the consumers whose promises were kept and broken on a day, counted from 1970.
type recordDay struct {
	Day    int32 `json:"day"`
	Kept   int64 `json:"kept,omitempty"`
	Broken int64 `json:"broken,omitempty"`
	// For and Against name them, sorted, until the next day begins.
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

// before reports whether a day is too long ago to count.
func (d recordDay) before(at Time) bool { return Time(d.Day) <= at/day-recordDays }

// honoured returns the share of kept promises, in parts per million, rounded down.
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

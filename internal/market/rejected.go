package market

import (
	"cmp"

	"github.com/bourse-dev/bourse/api"
)

// Bounds of what a market remembers of rejected requests.
const (
	maxRejected         = 100       // requests of one consumer
	maxRejectedBytes    = 256 << 10 // of one consumer's
	maxAllRejectedBytes = 64 << 20  // of all consumers'
)

// rejections are the remembered rejected requests, without their content. They are soft state: not in the
// journal, and gone when the process ends. A repeat is then decided again.
type rejections struct {
	byID       map[string]*Reservation
	byKey      map[ownKey]*Reservation
	byConsumer map[string]*rejectedOf
	bytes      int64
}

// rejectedOf are those of one consumer, oldest first.
type rejectedOf struct {
	all   []*Reservation
	bytes int64
}

func newRejections() rejections {
	return rejections{map[string]*Reservation{}, map[ownKey]*Reservation{}, map[string]*rejectedOf{}, 0}
}

// reject makes r a rejected request. It makes no event: see [State.Remember].
func (s *State) reject(r *Reservation, d *api.Decision, why Why, now Time) Outcome {
	r.State, r.Reason, r.Changed = api.Rejected, api.ReasonNoCandidate, now
	r.Revision, r.Why = s.Revision, why
	return Outcome{Reservation: r, Decision: d, Rejected: r}
}

// repeated answers the repeat of a hold. What is remembered of a rejected request lacks its
// content.
func (s *State) repeated(c *Hold, r *Reservation) Outcome {
	if s.rejected.byID[r.ID] == r {
		r = clone(r)
		r.Request = c.Request
	}
	return Outcome{Reservation: r, Decision: r.Why.Decision()}
}

// Remember stores a rejected request, and drops the oldest ones beyond the bounds. Nil does nothing.
func (s *State) Remember(rejected *Reservation) {
	if rejected == nil || s.Reservation(rejected.ID) != nil {
		return
	}
	r := clone(rejected)
	r.Request, r.Plans, r.Next = nil, nil, nil
	r.Bytes = footprint(r)
	all := &s.rejected
	of := all.byConsumer[r.Consumer]
	if of == nil {
		of = &rejectedOf{}
		all.byConsumer[r.Consumer] = of
	}
	of.all = append(of.all, r)
	of.bytes += r.Bytes
	all.bytes += r.Bytes
	all.byID[r.ID] = r
	if r.Key != "" {
		all.byKey[ownKey{r.Consumer, r.Key}] = r
	}
	for len(of.all) > maxRejected || of.bytes > maxRejectedBytes {
		all.forgetOldest(of)
	}
	if all.bytes > maxAllRejectedBytes {
		all.share()
	}
}

// share drops what each consumer has beyond an equal share of half the bound, so that it runs rarely.
func (x *rejections) share() {
	share := int64(maxAllRejectedBytes / 2 / len(x.byConsumer))
	for _, of := range x.byConsumer {
		for of.bytes > share {
			x.forgetOldest(of)
		}
	}
}

func (x *rejections) forgetOldest(of *rejectedOf) {
	r := of.all[0]
	of.all[0], of.all = nil, of.all[1:]
	of.bytes -= r.Bytes
	x.bytes -= r.Bytes
	delete(x.byID, r.ID)
	if key := (ownKey{r.Consumer, r.Key}); x.byKey[key] == r {
		delete(x.byKey, key)
	}
	if len(of.all) == 0 {
		delete(x.byConsumer, r.Consumer)
	}
}

// forget drops all of one consumer.
func (x *rejections) forget(consumer string) {
	for of := x.byConsumer[consumer]; of != nil && len(of.all) > 0; {
		x.forgetOldest(of)
	}
}

// Rejected returns the remembered rejected requests of a consumer, oldest first.
func (s *State) Rejected(consumer string) []*Reservation {
	if of := s.rejected.byConsumer[consumer]; of != nil {
		return append([]*Reservation(nil), of.all...)
	}
	return nil
}

// ByKey returns the reservation, or the remembered rejected request, of an idempotency key, or nil.
// Of a split request it is the first remaining part.
func (s *State) ByKey(consumer, key string) *Reservation {
	return cmp.Or(s.madeBy(ownKey{consumer, key}), s.rejected.byKey[ownKey{consumer, key}])
}

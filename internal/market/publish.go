package market

import (
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Publish puts a version of an offer on sale, and takes the version before it off sale. The caller verified
// the signature. Errors: Conflict if the version is not newer; TooLarge if the seller has too many offers.
type Publish struct{ Offer *Offer }

func (c Publish) decide(s *State, now Time) (Outcome, error) {
	o := c.Offer
	old := s.onSale[o.Key()]
	if known := s.offers[o.Digest]; known != nil && known.OnSale {
		return Outcome{Offer: known}, nil
	}
	if s.Self == "" {
		if err := s.active(o.Signed.Seller); err != nil {
			return Outcome{}, err
		}
	}
	switch {
	case old != nil && old.Signed.Version >= o.Signed.Version:
		return Outcome{}, api.Errorf(api.CodeConflict, "offer %s is at version %d", o.Key(), old.Signed.Version).
			At("version").Fix("sign a newer one")
	case old == nil && s.providers[o.Signed.Seller].offers() >= api.MaxOffers:
		return Outcome{}, api.Errorf(api.CodeTooLarge, "%s has %d offers on sale", o.Signed.Seller, api.MaxOffers).
			Fix("withdraw one first")
	}
	if err := s.checkOfferBytes(o, old); err != nil {
		return Outcome{}, err
	}
	next := *o
	next.OnSale, next.Changed = true, now
	out := Outcome{Offer: &next}
	if old != nil { // first, so that two are never on sale, even if a journal ends between the two events
		out.Events = append(out.Events, s.takenOff(old, now))
	}
	out.Events = append(out.Events, Event{Time: now, Offer: &next})
	return out, nil
}

// Withdraw takes an offer off sale. Reservations from it stay.
type Withdraw struct{ Seller, Name string }

func (c Withdraw) decide(s *State, now Time) (Outcome, error) {
	o := s.onSale[c.Seller+"/"+c.Name]
	if o == nil {
		return Outcome{}, nil
	}
	return Outcome{Events: []Event{s.takenOff(o, now)}}, nil
}

// takenOff returns the event that takes an offer off sale. The offer is forgotten unless a reservation is
// from it.
func (s *State) takenOff(o *Offer, now Time) Event {
	if s.madeFrom[o.Digest] == 0 {
		return Event{Time: now, Forget: &Forget{Offers: []string{o.Digest}}}
	}
	next := *o
	next.OnSale, next.Changed = false, now
	return Event{Time: now, Offer: &next}
}

// keepOffer adds an unknown offer to the events of a reservation from it.
func (s *State) keepOffer(o *Offer, out Outcome, now Time) Outcome {
	if o == nil || s.offers[o.Digest] != nil {
		return out
	}
	kept := *o
	kept.OnSale, kept.Changed = false, now
	out.Events = append([]Event{{Time: now, Offer: &kept}}, out.Events...)
	return out
}

// putOffer stores the record of a version.
func (s *State) putOffer(o *Offer) {
	if o.Signed == nil {
		read, err := ReadOffer(o.Document)
		if err != nil { // impossible: it was read before it was journalled
			return
		}
		o.Signed, o.Plans, o.Text = read.Signed, read.Plans, read.Text
	}
	if s.offers[o.Digest] == nil {
		s.offerBytes[o.Signed.Seller] += o.bytes()
	}
	s.offers[o.Digest] = o
	switch {
	case o.OnSale:
		s.onSale[o.Key()] = o
		s.provider(o.Signed.Seller).sell(o)
	case s.onSale[o.Key()] != nil && s.onSale[o.Key()].Digest == o.Digest:
		s.takeOff(o)
	}
	s.resell(o.Signed.Seller)
	s.touch(s.provider(o.Signed.Seller))
}

func (s *State) takeOff(o *Offer) {
	delete(s.onSale, o.Key())
	s.resell(o.Signed.Seller)
	p := s.provider(o.Signed.Seller)
	p.onSale = slices.DeleteFunc(slices.Clone(p.onSale), func(x *Offer) bool { return x.Signed.Name == o.Signed.Name })
	s.touch(p)
}

func (s *State) forgetOffer(digest string) {
	o := s.offers[digest]
	if o == nil {
		return
	}
	if on := s.onSale[o.Key()]; on != nil && on.Digest == digest {
		s.takeOff(o)
	}
	delete(s.offers, digest)
	if s.offerBytes[o.Signed.Seller] -= o.bytes(); s.offerBytes[o.Signed.Seller] == 0 {
		delete(s.offerBytes, o.Signed.Seller)
	}
}

// sell adds an offer to those on sale, which are sorted by name. It replaces the slice, which views share.
func (p *provider) sell(o *Offer) {
	i, found := slices.BinarySearchFunc(p.onSale, o, func(a, b *Offer) int {
		return strings.Compare(a.Signed.Name, b.Signed.Name)
	})
	next := slices.Clone(p.onSale)
	if found {
		next[i] = o
	} else {
		next = slices.Insert(next, i, o)
	}
	p.onSale = next
}

// Offer returns the record of a version, or nil.
func (s *State) Offer(digest string) *Offer { return s.offers[digest] }

// OnSale returns the version of an offer that is on sale, or nil.
func (s *State) OnSale(seller, name string) *Offer { return s.onSale[seller+"/"+name] }

// Offers returns the records, by digest.
func (s *State) Offers() []*Offer { return byKey(s.offers) }

// maxOfferBytes is about how much memory the offers of one seller may take at a broker, with those that are
// kept only for the reservations from them.
const maxOfferBytes = 4 << 20

// bytes returns about how much memory an offer takes: the signed document, its content, and the text to
// search.
func (o *Offer) bytes() int64 { return recordBytes + 3*int64(len(o.Document)) }

// checkOfferBytes refuses an offer if the offers of its seller would take too much memory. old is the version
// that it replaces. Nil: none.
func (s *State) checkOfferBytes(o, old *Offer) error {
	has := s.offerBytes[o.Signed.Seller]
	if old != nil && s.madeFrom[old.Digest] == 0 {
		has -= old.bytes()
	}
	if s.Self != "" || has+o.bytes() <= maxOfferBytes {
		return nil
	}
	return api.Errorf(api.CodeTooLarge, "the offers of %s take %d KiB, and this one %d KiB; together they may take %d KiB",
		o.Signed.Seller, has>>10, o.bytes()>>10, maxOfferBytes>>10).
		Fix("withdraw one, describe it in fewer words, or wait until contracts of its older versions are over")
}

// offers returns how many offers are on sale. p may be nil.
func (p *provider) offers() int {
	if p == nil {
		return 0
	}
	return len(p.onSale)
}

package gate

import (
	"context"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// offSale knows which offers are on sale here and not at the broker. A program with the certificate of this
// cluster can take them off sale there, such as a client of the Distributed Catalog.
type offSale struct {
	mu sync.Mutex
	// shown are the offers of this cluster that the broker showed last, or took since.
	shown map[string]bool
	// missing are those that it showed before, and of does not yet say about. of has the digest of
	// each that is off sale.
	missing map[string]bool
	of      map[string]string
	// ordered is, by name, the order to publish again whose answer is being written. The write may come through although
	// it failed: then the order is carried out once the object shows the answer.
	ordered map[string]string
}

// order notes an order whose answer is written next, and unorder forgets it. It reports whether there was one.
func (s *offSale) order(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ordered == nil {
		s.ordered = map[string]string{}
	}
	s.ordered[name] = value
}

func (s *offSale) unorder(name, value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.ordered[name] == value && value != ""
	delete(s.ordered, name)
	return was
}

// recordPublished notes that the broker took an offer.
func (s *offSale) recordPublished(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown == nil {
		s.shown = map[string]bool{}
	}
	s.shown[name] = true
}

// forget forgets an offer that this cluster withdraws itself: if it is made again, no program took it off sale.
func (s *offSale) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shown, name)
	delete(s.missing, name)
	delete(s.of, name)
}

// recordMissing notes that a broker shows an offer no more. The caller holds mu.
func (s *offSale) recordMissing(name string) {
	if s.missing == nil {
		s.missing = map[string]bool{}
	}
	s.missing[name] = true
}

// Compare takes in which offers of a seller a broker shows, and looks again at those of this
// cluster that it does not show any more.
func (o *Offers) Compare(seller api.SellerOffers) {
	if seller.Cluster != o.Cluster || seller.Lease {
		return
	}
	now := map[string]bool{}
	for _, listed := range seller.Offers {
		now[listed.Payload.Name] = true
	}
	s := &o.offSale
	s.mu.Lock()
	defer s.mu.Unlock()
	if seller.Part > 0 && s.shown != nil {
		for name := range now {
			s.shown[name] = true
		}
		return
	}
	for name := range s.shown {
		if !now[name] {
			s.recordMissing(name)
			o.Look(name)
		}
	}
	s.shown = now
}

// ForgetShown forgets which offers brokers showed. Call it before a broker shows its catalog from the beginning:
// if it was restored from a backup, it lacks offers that no program took off sale.
func (o *Offers) ForgetShown() {
	o.offSale.mu.Lock()
	defer o.offSale.mu.Unlock()
	o.offSale.shown = nil
}

// PublishAgain publishes an offer, also if it was taken off sale at a broker.
func (o *Offers) PublishAgain(name string) {
	o.offSale.mu.Lock()
	delete(o.offSale.of, name)
	delete(o.offSale.missing, name)
	o.offSale.mu.Unlock()
	o.Look(name)
}

// isOffSale reports whether an offer that is on sale here was taken off sale at the broker. It asks
// the broker, since what a watch showed can be old. Errors: those of Shown.
func (o *Offers) isOffSale(ctx context.Context, offer *market.Offer) (offSale bool, err error) {
	name, s := offer.Signed.Name, &o.offSale
	s.mu.Lock()
	asks, was := s.missing[name], s.of[name]
	delete(s.missing, name)
	s.mu.Unlock()
	if !asks {
		return was == offer.Digest, nil
	}
	listed, err := o.Shown(ctx, api.CatalogQuery{Seller: o.Cluster, Hidden: true})
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(listed, func(l api.Envelope[api.Listing]) bool { return l.Payload.Name == name }) {
		return false, nil
	}
	switch {
	case api.CodeOf(err) == api.CodeNotFound: // it is shown nowhere
		return false, nil
	case err != nil: // it asks again, and publishes nothing before
		s.recordMissing(name)
		return false, err
	}
	if s.of == nil {
		s.of = map[string]string{}
	}
	s.of[name] = offer.Digest
	return true, nil
}

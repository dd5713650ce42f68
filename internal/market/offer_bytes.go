package market

import "github.com/bourse-dev/bourse/api"

// maxOfferBytes is about how much memory the offers of one seller may take at a broker, with those that are
// kept only for what was made from them.
const maxOfferBytes = 4 << 20

// bytes is about how much memory an offer takes: its document is kept signed, read, and as text to
// search through.
func (o *Offer) bytes() int64 { return recordBytes + 3*int64(len(o.Document)) }

// checkOfferBytes refuses an offer with which those of its seller would take too much. old is the
// version that it replaces; nil: none.
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

// offers is how many are on sale; p may be nil.
func (p *provider) offers() int {
	if p == nil {
		return 0
	}
	return len(p.onSale)
}

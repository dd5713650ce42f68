package market

import (
	"fmt"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Terms are a provider's terms, with amounts in the market's terms.
type Terms struct {
	api.Terms
	MaxPerReservation, MaxPerConsumer amounts.List
}

// TrustsLegacy reports whether the cluster with this card accepts a broker's signatures in the name of legacy
// clusters, which have no key. Legacy clusters accept each other. t may be nil.
func (t *Terms) TrustsLegacy(card *api.Card) bool {
	return card.Legacy || t != nil && t.Trust == api.TrustLegacy
}

// MeasureTerms checks and converts terms. Nil stays nil. Errors: Invalid with the field.
func MeasureTerms(t *api.Terms) (*Terms, error) {
	if t == nil {
		return nil, nil
	}
	if err := checkApproval("terms.approveWithin", t.ApproveWithin); err != nil {
		return nil, err
	}
	if !slices.Contains([]api.TrustLevel{"", api.TrustTofu, api.TrustPinned, api.TrustLegacy}, t.Trust) {
		return nil, api.Invalid("terms.trust", "%.40q is not a trust level", string(t.Trust)).
			Fix("use tofu, pinned or legacy")
	}
	perReservation, err := amounts.ParseCapacity("terms.maxPerReservation", t.MaxPerReservation)
	if err != nil {
		return nil, err
	}
	perConsumer, err := amounts.ParseCapacity("terms.maxPerConsumer", t.MaxPerConsumer)
	if err != nil {
		return nil, err
	}
	return &Terms{Terms: *t, MaxPerReservation: perReservation, MaxPerConsumer: perConsumer}, nil
}

// Refuses returns, in words, why the terms refuse a reservation of this size to a consumer that already has
// that much. It is empty if they do not.
func (t *Terms) Refuses(size, already amounts.List) string {
	for _, limit := range t.MaxPerReservation {
		if v := size.Of(limit.Resource); v > limit.Value {
			return exceeds(limit, "reservation")
		}
	}
	for _, limit := range t.MaxPerConsumer {
		if size.Of(limit.Resource) > 0 && size.Of(limit.Resource)+already.Of(limit.Resource) > limit.Value {
			return exceeds(limit, "consumer")
		}
	}
	return ""
}

func exceeds(limit amounts.Amount, who string) string {
	most := limit.Quantity()
	return fmt.Sprintf("more %s than one %s may take here: %s", limit.Resource, who, most.String())
}

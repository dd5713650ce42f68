package trust

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Reclaimed returns the command for a seller's signed document that reclaims a contract. It checks that
// one of the seller's keys signed it, and that it leaves the notice of the contract's plan.
// Errors: BadSignature.
func Reclaimed(document string, r *market.Reservation, keys ...clusterkey.PublicKey) (market.Reclaim, error) {
	var word api.Reclaim
	if _, err := Verified(document, api.DocumentReclaim, &word, keys...); err != nil {
		return market.Reclaim{}, err
	}
	if word.Protocol > api.Protocol || word.Assignment == "" && word.Protocol < api.Protocol {
		return market.Reclaim{}, api.OtherProtocol(api.CodeBadSignature, "the reclaim", word.Protocol)
	}
	for _, demand := range []struct {
		holds bool
		what  string
	}{
		{word.Protocol >= 1, "of no protocol"},
		{word.Reservation == r.ID && word.Consumer == r.Consumer && word.Provider == r.Provider, "of another contract"},
		{Names(word.Assignment, r), "of another assignment"},
		{r.Notice() > 0 && word.Effective.Sub(word.Issued.Time) >= r.Notice(), "with less notice than the plan has"},
	} {
		if !demand.holds {
			return market.Reclaim{}, api.Errorf(api.CodeBadSignature, "the reclaim is %s", demand.what).At("document")
		}
	}
	return market.Reclaim{ID: r.ID, By: r.Provider, At: market.At(word.Effective.Time), Document: document}, nil
}

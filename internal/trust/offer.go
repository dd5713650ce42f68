package trust

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Bounds of an offer's texts, in characters: everyone sees them.
const (
	maxType        = 63
	maxDescription = 1024
	maxLabels      = 32
	maxLabel       = 256
)

// Offer reads a signed offer and checks everything but its expressions. Errors: BadSignature if none
// of the keys signed it; Invalid with the field.
func Offer(document string, keys ...clusterkey.PublicKey) (*market.Offer, error) {
	var signed api.SignedOffer
	if _, err := Verified(document, api.DocumentOffer, &signed, keys...); err != nil {
		return nil, err
	}
	if signed.Protocol < 1 || signed.Protocol > api.Protocol {
		return nil, api.Invalid("protocol", "protocol %d is not supported", signed.Protocol).Fix("use %d", api.Protocol)
	}
	if err := words(&signed.Offer); err != nil {
		return nil, err
	}
	o, err := market.ReadOffer(document)
	if err != nil {
		return nil, err
	}
	o.Digest = clusterkey.Digest(document).String()
	return o, nil
}

// words checks the texts of an offer.
func words(o *api.OfferSpec) error {
	if len(o.Labels) > maxLabels {
		return api.Invalid("labels", "%d labels", len(o.Labels)).Fix("give at most %d", maxLabels)
	}
	err := cmp.Or(showable("type", o.Type, maxType), showable("description", o.Description, maxDescription))
	for i := range o.Plans {
		err = cmp.Or(err, showable("plans.description", o.Plans[i].Description, maxDescription))
	}
	for name, value := range o.Labels {
		err = cmp.Or(err, showable("labels", name, maxLabel), showable("labels", value, maxLabel))
	}
	return err
}

func showable(field, text string, most int) error {
	if utf8.RuneCountInString(text) > most || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		return api.Invalid(field, "%.40q cannot be shown", text).Fix("use at most %d printable characters", most)
	}
	return nil
}

package trust

import (
	"cmp"
	"encoding/hex"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
)

// maxMessage bounds the message of a proposal, in characters. maxUnits bounds its units.
const maxMessage, maxUnits = 256, 1_000_000

// Proposal reads a buyer's signed proposal. Errors: BadSignature if none of the keys signed it; Invalid with
// the field.
func Proposal(document string, keys ...clusterkey.PublicKey) (*api.SignedProposal, error) {
	var p api.SignedProposal
	if _, err := Verified(document, api.DocumentProposal, &p, keys...); err != nil {
		return nil, err
	}
	if p.Protocol < 1 || p.Protocol > api.Protocol {
		return nil, api.OtherProtocol(api.CodeBadSignature, "the proposal", p.Protocol)
	}
	return &p, CheckProposal(&p)
}

// CheckProposal reports what is wrong with the fields of a proposal. Errors: Invalid with the field.
func CheckProposal(p *api.SignedProposal) error {
	return cmp.Or(market.ValidCluster("buyer", p.Buyer), market.ValidCluster("seller", p.Seller),
		market.ValidCluster("offer", p.Offer), market.ValidCluster("plan", p.Plan), CheckTerms(&p.ProposalTerms))
}

// CheckTerms reports what is wrong with proposed terms. Errors: Invalid with the field.
func CheckTerms(t *api.ProposalTerms) error {
	if t.Price != nil {
		if _, err := money.Parse("price", t.Price); err != nil {
			return err
		}
	}
	if t.Units < 0 || t.Units > maxUnits {
		return api.Invalid("units", "%d is no number of units", t.Units).Fix("name 1 to %d", maxUnits)
	}
	if d := t.Duration; d != nil && (d.Duration < time.Minute || d.Duration > api.LongestDuration) {
		return api.Invalid("duration", "a contract cannot last %s", d.Duration).
			Fix("give a duration from 1m to %s", api.LongestDuration)
	}
	return showable("message", t.Message, maxMessage)
}

// idBytes is how much of a digest is in the ID of a proposal. A buyer chooses what it signs, so that of a
// shorter part it could find two proposals with one ID: one to show, and one to be accepted.
const idBytes = 20

// ProposalID returns the ID of a proposal, which is also the name of the offer that answers it. A Ledger
// can have proposals with shorter IDs, of earlier versions, for at most a week.
func ProposalID(document string) string {
	digest := clusterkey.Digest(document)
	return "p-" + hex.EncodeToString(digest[:idBytes])
}

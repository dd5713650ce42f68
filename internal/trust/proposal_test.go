package trust_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// The ID of a proposal has at least 128 bits of its digest, and is a valid name of an Offer.
func TestProposalIDsAreLong(t *testing.T) {
	id := trust.ProposalID("signed")
	digest, err := hex.DecodeString(strings.TrimPrefix(id, "p-"))
	if err != nil || len(digest)*8 < 128 || market.ValidCluster("offer", id) != nil {
		t.Errorf("the ID %s has %d bits, %v", id, len(digest)*8, err)
	}
}

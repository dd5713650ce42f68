package requests_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Why a reservation ended is what a party signed, not what a broker says. A provider cannot say that the consumer
// released it.
func TestWhoEndedIt(t *testing.T) {
	for _, c := range []struct {
		byProvider         bool
		signed, said, want api.Reason
	}{
		{true, api.ReasonRevokedByProvider, api.ReasonReleased, api.ReasonRevokedByProvider},
		{true, api.ReasonReleased, api.ReasonReleased, api.ReasonRevokedByProvider},
		{true, api.ReasonEnded, api.ReasonRevokedByProvider, api.ReasonEnded},
		{false, api.ReasonReleased, api.ReasonRevokedByProvider, api.ReasonReleased},
	} {
		b := newBorrower(t)
		d := b.bound()
		party := map[bool]*transporttest.Party{true: b.milan, false: b.rome}[c.byProvider]
		theirs := d.Ending(party, c.signed)
		theirs.Payload.Reason = c.said
		b.hears(theirs)
		b.holds(api.Releasing, c.want)
	}
}

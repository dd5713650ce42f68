package requests_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Why a reservation ended is what a party signed, not what a broker says. Each party speaks for itself: a provider
// that ends it early revokes it, with any reason in its document.
func TestWhoEndedIt(t *testing.T) {
	type end struct {
		byProvider         bool
		signed, said, want api.Reason
	}
	ends := []end{
		{false, api.ReasonReleased, api.ReasonRevokedByProvider, api.ReasonReleased},
		{false, api.ReasonEnded, api.ReasonEnded, api.ReasonReleased},
	}
	for _, reason := range []api.Reason{api.ReasonRevokedByProvider, api.ReasonReleased, api.ReasonCancelled,
		api.ReasonEnded, api.ReasonReclaimed, api.ReasonMemberRemoved, ""} {
		ends = append(ends, end{true, reason, api.ReasonReleased, api.ReasonRevokedByProvider})
	}
	for _, c := range ends {
		b := newBorrower(t)
		d := b.bound()
		party := map[bool]*transporttest.Party{true: b.milan, false: b.rome}[c.byProvider]
		shown := d.Ending(party, c.signed)
		shown.Payload.Reason = c.said
		b.hears(shown)
		b.holds(api.Releasing, c.want)
	}
}

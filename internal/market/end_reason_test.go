package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A broker records a reason only from the party that may give it. A provider that ends early revokes, with any reason
// in its document; one that ends in time does not.
func TestWhoGivesAReason(t *testing.T) {
	for _, said := range []api.Reason{api.ReasonReleased, api.ReasonCancelled, api.ReasonEnded,
		api.ReasonRevokedByProvider, api.ReasonReclaimed, api.ReasonMemberRemoved, ""} {
		consumers := api.ReasonReleased
		if said == api.ReasonCancelled || said == "" {
			consumers = said
		}
		for _, c := range []struct {
			what, by string
			left     time.Duration // until the reservation ends
			want     api.Reason
		}{
			{"the provider, early", "rome", time.Minute, api.ReasonRevokedByProvider},
			{"the provider, whose clock is fast", "rome", market.SkewGrace / 2, api.ReasonEnded},
			{"the consumer, early", "milan", time.Minute, consumers},
		} {
			d := newTestBroker(t)
			d.promise("r", "milan", true)
			d.pass(d.state.Reservation("r").EndsAt().Go().Sub(d.now.Go()) - c.left)
			d.must(market.Release{ID: "r", By: c.by, Generation: 1, Reason: said, Document: "end of r"})
			if got := d.state.Reservation("r").Reason; got != c.want {
				t.Errorf("%s says %q: %q, want %q", c.what, said, got, c.want)
			}
		}
	}
}

package gate

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// restore puts a reservation back into a Ledger that does not know it. If it is over, or cannot be
// restored, restore sends the broker its end. Otherwise the broker would count it until its time
// ends.
func (g *Gate) restore(ctx context.Context, theirs *transport.Reservation) error {
	var shown api.Acceptance // what we accepted, if we did
	_ = clusterkey.Verify(theirs.Payload.Acceptance, api.DocumentAcceptance, g.Key.Public(), &shown)
	spent := false
	if err := g.Market.Read(ctx, func(s *market.State) {
		spent = s.Spent(theirs.ID, shown.Consumer, bindsUntil(shown), g.Market.Now())
	}); err != nil {
		return err
	}
	reason := api.ReasonReleased
	if !spent {
		err := g.adopt(ctx, theirs)
		if !isFinal(err) {
			return err
		}
		g.Log.Warn("the broker shows a reservation that cannot be restored", "reservation", theirs.ID, "error", err)
		var claimed api.Assignment
		unreadable := trust.Claimed(theirs.Payload.Assignment, &claimed) != nil
		if unreadable || claimed.Reservation != theirs.ID || claimed.Provider != g.Cluster {
			return nil // no consumer can be waiting for us
		}
		left := claimed.Expires.Add(market.SkewGrace).Sub(g.Market.Now().Go())
		if left > 0 {
			// Until the assignment expires the gate could still accept it. A broker could keep an
			// end that is signed now, and show it after that.
			return api.Errorf(api.CodeConflict, "the end of reservation %s is sent when its assignment has expired, in %s: %s",
				theirs.ID, left.Round(time.Second), err)
		}
		reason = api.ReasonNotAccepted
	}
	t := theirs.Payload
	return g.publishEnd(ctx, theirs, &market.Reservation{
		ID: theirs.ID, Consumer: t.Consumer, Provider: g.Cluster, Generation: t.Generation, Reason: reason,
	})
}

// bindsUntil returns until when an acceptance binds by itself; 0 for none.
func bindsUntil(a api.Acceptance) market.Time {
	if a.Expires.IsZero() {
		return 0
	}
	return market.At(a.Expires.Time)
}

// isFinal reports whether no action of an admin can mend an error of adopt.
func isFinal(err error) bool {
	switch code := api.CodeOf(err); code {
	case api.CodeKeyChanged, api.CodeKeyUnconfirmed, api.CodeLedgerFull:
		return false
	default:
		_, answer := refusals[code]
		return err != nil && answer
	}
}

// adopt restores a reservation that our own signature proves that we accepted. Errors: BadSignature
// if it does not; those of admit.
func (g *Gate) adopt(ctx context.Context, shown *transport.Reservation) error {
	var a api.Acceptance
	if err := clusterkey.Verify(shown.Payload.Acceptance, api.DocumentAcceptance, g.Key.Public(), &a); err != nil {
		return api.Errorf(api.CodeBadSignature, "cluster %s never accepted it: %s", g.Cluster, err)
	}
	if a.Reservation != shown.ID || a.Assignment != clusterkey.Digest(shown.Payload.Assignment).String() {
		return api.Errorf(api.CodeBadSignature, "cluster %s accepted another assignment", g.Cluster)
	}
	g.Log.Warn("a reservation that this cluster accepted was missing from its ledger", "reservation", shown.ID)
	_, err := g.admit(ctx, shown, nil, true)
	return err
}

// restoreApproval puts an approval back into a Ledger that lost it, if our own signature proves
// that it was given.
func (g *Gate) restoreApproval(ctx context.Context, shown *transport.Reservation, record *market.Reservation) error {
	var a api.Acceptance
	err := clusterkey.Verify(shown.Payload.Acceptance, api.DocumentAcceptance, g.Key.Public(), &a)
	if err != nil || a.Reservation != record.ID || a.Assignment != clusterkey.Digest(record.Assignment).String() {
		g.Log.Warn("the broker shows an acceptance that no admin here approved: not believed",
			"reservation", record.ID, "error", err)
		return nil
	}
	_, err = g.Market.Do(ctx, market.Approve{ID: record.ID, Generation: record.Generation,
		Acceptance: shown.Payload.Acceptance})
	return err // the Ledger's change brings us here again
}

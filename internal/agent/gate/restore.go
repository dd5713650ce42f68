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

// takeBack adopts what the Ledger does not have. Of what is over, and of what it cannot take back, it says the end: otherwise the broker
// counts it until its time ends.
func (g *Gate) takeBack(ctx context.Context, theirs *transport.Reservation) error {
	var shown api.Acceptance // what we accepted, if we did
	_ = clusterkey.Verify(theirs.Payload.Acceptance, api.DocumentAcceptance, g.Key.Public(), &shown)
	spent := false
	if err := g.Market.Read(ctx, func(s *market.State) {
		spent = s.Spent(theirs.ID, shown.Consumer, acceptBy(shown), g.Market.Now())
	}); err != nil {
		return err
	}
	reason := api.ReasonReleased
	if !spent {
		err := g.adopt(ctx, theirs)
		if !hopeless(err) {
			return err
		}
		g.Log.Warn("the broker shows a reservation that cannot be taken back", "reservation", theirs.ID, "error", err)
		var claimed api.Assignment
		if trust.Claimed(theirs.Payload.Assignment, &claimed) != nil || claimed.Reservation != theirs.ID || claimed.Provider != g.Cluster {
			return nil // it is of nobody who could be waiting for us
		}
		if left := claimed.Expires.Add(market.SkewGrace).Sub(g.Market.Now().Go()); left > 0 {
			// Until then the gate could still accept it. The broker could keep an end that is said now, and show it after that.
			return api.Errorf(api.CodeConflict, "the end of reservation %s is said when its assignment has expired, in %s: %s", theirs.ID, left.Round(time.Second), err)
		}
		reason = api.ReasonNotAccepted
	}
	t := theirs.Payload
	return g.sayEnd(ctx, theirs, &market.Reservation{ID: theirs.ID, Consumer: t.Consumer, Provider: g.Cluster, Generation: t.Generation, Reason: reason})
}

// acceptBy is until when an acceptance binds by itself; 0 for none.
func acceptBy(a api.Acceptance) market.Time {
	if a.Expires.IsZero() {
		return 0
	}
	return market.At(a.Expires.Time)
}

// hopeless says whether an error of adopt stays what it is, whatever people do.
func hopeless(err error) bool {
	switch code := api.CodeOf(err); code {
	case api.CodeKeyChanged, api.CodeKeyUnconfirmed, api.CodeLedgerFull:
		return false
	default:
		_, answer := refusals[code]
		return err != nil && answer
	}
}

// adopt takes a reservation back into a Ledger that lost it: our own signature says that we accepted it. Errors: BadSignature where it
// does not; those of admit.
func (g *Gate) adopt(ctx context.Context, theirs *transport.Reservation) error {
	var a api.Acceptance
	if err := clusterkey.Verify(theirs.Payload.Acceptance, api.DocumentAcceptance, g.Key.Public(), &a); err != nil {
		return api.Errorf(api.CodeBadSignature, "cluster %s never accepted it: %s", g.Cluster, err)
	}
	if a.Reservation != theirs.ID || a.Assignment != clusterkey.Digest(theirs.Payload.Assignment).String() {
		return api.Errorf(api.CodeBadSignature, "cluster %s accepted another assignment", g.Cluster)
	}
	g.Log.Warn("a reservation that this cluster accepted was missing from its ledger", "reservation", theirs.ID)
	_, err := g.admit(ctx, theirs, nil, true)
	return err
}

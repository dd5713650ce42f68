package provider

import (
	"context"
	"errors"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Gate accepts or refuses reservations of this cluster's capacity.
type Gate struct {
	Cluster string
	Key     *clusterkey.Key
	// Former are the fingerprints of the keys that Key succeeded: what names one of them is still for this cluster.
	Former []string
	Market *exchange.Exchange
	Engine *match.Engine
	Broker transport.Broker
	// Via is this cluster, where Broker is its own connector, or "broker/NAME"; empty: it is the main broker.
	Via   string
	Log   *slog.Logger
	Trust trust.Demand
	// Freed takes down what a reservation that ends still has here, and says whether nothing of it is left. Nil where
	// there never is anything: without Liqo.
	Freed func(ctx context.Context, ours *market.Reservation) (bool, error)
	// Fresh measures the cluster now, for a refusal; nil if that is not possible.
	Fresh func(context.Context) *api.Measurement
}

// At returns this gate for the reservations that come by another broker or connector.
func (g *Gate) At(via string, b transport.Broker) *Gate {
	at := *g
	at.Via, at.Broker = via, b
	return &at
}

// Sync brings what the broker says of a reservation (theirs, nil if it says nothing) and
// what the Ledger says (ours, nil if it knows nothing) together. It is called for each
// change of either, and again after an error; it may be called at any time.
func (g *Gate) Sync(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if ours != nil && ours.State == api.Releasing {
		g.announce(ctx, theirs, ours)
		return g.free(ctx, ours)
	}
	if theirs == nil || ours != nil && theirs.Payload.Fence.Before(ours.Fence) {
		return nil
	}
	t := theirs.Payload
	if ours != nil {
		g.Trust.Greet(ctx, g.Market, t.ConsumerCard, ours.Consumer)
	}
	switch counts := ours != nil && ours.State.Counts(); {
	case t.State == api.Held && t.Assignment == "":
		return nil // nobody has signed anything that could be answered
	case t.State == api.Held:
		return g.answer(ctx, theirs, ours)
	case t.State == api.Reserved || t.State == api.Active:
		if counts {
			return g.follow(ctx, theirs, ours)
		}
		if ours == nil {
			return g.takeBack(ctx, theirs)
		}
		return g.sayEnd(ctx, theirs, ours)
	case counts:
		return g.ending(ctx, theirs, ours)
	case t.State == api.Releasing:
		_, err := g.Broker.Progress(ctx, theirs.ID, api.Released)
		return unlessGone(err)
	default:
		return nil
	}
}

// ErrNotYet says that something has not gone yet: look again soon.
var ErrNotYet = errors.New("it is not gone yet")

// free gives the capacity back, once nothing uses it any more.
func (g *Gate) free(ctx context.Context, ours *market.Reservation) error {
	if g.Freed != nil {
		if freed, err := g.Freed(ctx, ours); err != nil {
			return err
		} else if !freed {
			return ErrNotYet
		}
	}
	_, err := g.Market.Do(ctx, market.Free{ID: ours.ID, Provider: g.Cluster})
	return err // its change brings us here again
}

// announce tells the consumer, through the broker, of an end that began here, so that it can move its pods meanwhile. It
// ends all the same where nobody can be told.
func (g *Gate) announce(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) {
	if theirs == nil {
		return
	}
	switch t := theirs.Payload; {
	case t.State == api.Reserved, t.State == api.Active, t.State == api.Releasing && trust.NamesNothing(t.End):
	default:
		return
	}
	if err := g.sayEnd(ctx, theirs, ours); err != nil {
		g.Log.Info("the consumer cannot be told that a reservation ends", "reservation", ours.ID, "error", err)
	}
}

// Revoke ends all that a consumer has reserved here, by this provider's own word, and returns the IDs.
func (g *Gate) Revoke(ctx context.Context, consumer string) (ended []string, err error) {
	var all []*market.Reservation
	if err := g.Market.Read(ctx, func(s *market.State) { all = s.Of(g.Cluster, 0) }); err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Provider != g.Cluster || r.Consumer != consumer || !r.State.Counts() || r.State == api.Releasing {
			continue
		}
		if _, err := g.Market.Do(ctx, market.Release{ID: r.ID, By: g.Cluster, Reason: api.ReasonRevokedByProvider}); err != nil {
			return ended, err
		}
		ended = append(ended, r.ID)
	}
	return ended, nil
}

// answer accepts or refuses a held reservation.
func (g *Gate) answer(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if ours != nil && ours.State == api.Held && ours.Generation < theirs.Payload.Generation {
		return g.drop(ctx, theirs.ID) // it was signed anew; the drop brings us here again
	}
	if ours != nil && ours.Assignment == theirs.Payload.Assignment {
		switch {
		case ours.AwaitsApproval():
			return nil // a person here has yet to say
		case ours.Denied():
			return g.deny(ctx, theirs, ours)
		}
	}
	acceptance := ours.AnswerTo(theirs.Payload.Assignment) // where it was lost
	if acceptance == "" {
		var err error
		if acceptance, err = g.admit(ctx, theirs, ours, false); err != nil {
			return g.refuse(ctx, theirs, err)
		}
		if acceptance == "" {
			return nil // a person here has yet to say
		}
	}
	committed, err := g.Broker.Accept(ctx, theirs.ID, acceptance)
	switch {
	case gone(err) && ours != nil && ours.Bound():
		return nil // what has become of the change, the next news says: it may have been recorded
	case gone(err): // it moved on without us: our acceptance binds nobody
		return g.drop(ctx, theirs.ID)
	case err != nil:
		return err
	case committed.Payload.State != api.Reserved && committed.Payload.State != api.Active:
		return nil // it was recorded, and has moved on since: the next change says where
	}
	return g.commit(ctx, &committed, &market.Reservation{ID: theirs.ID, State: api.Held})
}

// refuse says no, with why and what the cluster has now, unless trying again may help.
func (g *Gate) refuse(ctx context.Context, theirs *transport.Reservation, cause error) error {
	reason, known := refusals[api.CodeOf(cause)]
	if !known {
		return cause
	}
	refusal := api.Refusal{Generation: theirs.Payload.Generation, Reason: reason, Message: trust.Text(cause.Error())}
	if g.Fresh != nil && reason == api.ReasonInsufficient {
		refusal.Advertisement = g.Fresh(ctx)
	}
	g.Log.Info("refused", "reservation", theirs.ID, "consumer", theirs.Payload.Consumer, "reason", reason, "cause", cause)
	_, err := g.Broker.Refuse(ctx, theirs.ID, refusal)
	return unlessGone(err)
}

// gone says that a reservation is not, or no longer, what the call assumed.
func gone(err error) bool {
	code := api.CodeOf(err)
	return err != nil && (code == api.CodeConflict || code == api.CodeNotFound)
}

// unlessGone is err, but nil for one that only says that there is nothing left to do.
func unlessGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// refusals are the errors that are an answer, and the reason that the consumer reads.
var refusals = map[api.Code]api.Reason{
	api.CodeInsufficient:   api.ReasonInsufficient,
	api.CodeForbidden:      api.ReasonPolicy,
	api.CodeNotFound:       api.ReasonNothingShared,
	api.CodeKeyChanged:     api.ReasonKeyChanged,
	api.CodeKeyUnconfirmed: api.ReasonKeyUnconfirmed,
	api.CodeBadSignature:   api.ReasonBadAssignment,
	api.CodeInvalid:        api.ReasonBadAssignment,
	api.CodeConflict:       api.ReasonBadAssignment,
	api.CodeLedgerFull:     api.ReasonLedgerFull,
	api.CodeSuspended:      api.ReasonSuspended,
}

// follow keeps up with a reservation that both sides are bound by.
func (g *Gate) follow(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t, pending := theirs.Payload, ours.Changing()
	if err := g.reclaimed(ctx, theirs, ours); err != nil {
		return err
	}
	switch {
	case ours.AwaitsApproval() && ours.Generation == t.Generation:
		return g.recall(ctx, theirs, ours)
	case pending != nil && pending.Generation == t.Generation:
		return g.commit(ctx, theirs, ours)
	case t.Generation > ours.Generation:
		err := g.adopt(ctx, theirs)
		if hopeless(err) { // what this gate accepted before binds it on
			g.Log.Warn("the broker shows a change that cannot be taken back", "reservation", ours.ID, "error", err)
			return nil
		}
		return err
	case ours.Bound() && t.Change.Pending() && (t.Change.Generation > ours.Generation || ours.AnswerTo(t.Change.Assignment) != ""):
		offer := *theirs
		offer.Payload.State, offer.Payload.Generation, offer.Payload.Assignment = api.Held, t.Change.Generation, t.Change.Assignment
		return g.answer(ctx, &offer, ours)
	case pending != nil: // the broker waits for it no more
		return g.drop(ctx, ours.ID)
	default:
		return g.commit(ctx, theirs, ours)
	}
}

// commit makes an acceptance hold for the whole reservation.
func (g *Gate) commit(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if ours.State != api.Held && ours.Changing() == nil {
		return nil
	}
	_, err := g.Market.Do(ctx, market.Commit{ID: ours.ID, Generation: theirs.Payload.Generation, Fence: theirs.Payload.Fence})
	return err
}

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

// ending ends what one of the two parties signed the end of, and what we only accepted and the broker never took.
// The broker's word alone ends nothing that is bound: that ends with its signed time.
func (g *Gate) ending(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	reason, signed := g.endSigned(ctx, theirs, ours)
	if newer := theirs.Payload.Generation > ours.Generation && ours.Bound(); newer && !signed && theirs.Payload.End != "" {
		if err := g.adopt(ctx, theirs); !hopeless(err) { // it ends a newer assignment, which the Ledger lost: taken back, that brings us here again
			return err
		}
	}
	switch {
	case signed:
		_, err := g.Market.Do(ctx, market.Release{ID: ours.ID, By: g.Cluster, Reason: reason})
		return err
	case theirs.Payload.State.Over(), ours.Changing() != nil: // what ends changes no more
		return g.drop(ctx, ours.ID)
	default:
		return nil
	}
}

// HearEnd ends a reservation where a party signed its end, whoever passes that on. Nothing else that theirs says counts.
func (g *Gate) HearEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	reason, signed := g.endSigned(ctx, theirs, ours)
	if !signed || !ours.State.Counts() || ours.State == api.Releasing {
		return nil
	}
	_, err := g.Market.Do(ctx, market.Release{ID: ours.ID, By: g.Cluster, Reason: reason})
	return err
}

// RefuseID refuses what a broker brings under the ID of a reservation that was made at another broker.
func (g *Gate) RefuseID(ctx context.Context, theirs *transport.Reservation) error {
	return g.refuse(ctx, theirs, api.Errorf(api.CodeConflict, "the ID %s is of a reservation at another broker", theirs.ID))
}

// endSigned says whether one of the two parties signed the end that the broker relays.
func (g *Gate) endSigned(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) (reason api.Reason, signed bool) {
	if theirs.Payload.End == "" {
		return "", false
	}
	may := append(trust.Parties(ctx, g.Market, ours), g.Key.Public())
	if reason, signed = trust.EndSigned(theirs.Payload.End, ours, may...); !signed {
		g.Log.Warn("the broker relays an end that neither party signed: not obeyed", "reservation", ours.ID)
	}
	return reason, signed
}

// drop takes back an acceptance that was not committed. What is committed stays.
func (g *Gate) drop(ctx context.Context, id string) error {
	var ours *market.Reservation
	if err := g.Market.Read(ctx, func(s *market.State) { ours = s.Reservation(id) }); err != nil {
		return err
	}
	var undo market.Command
	switch {
	case ours == nil:
		return nil
	case ours.State == api.Held:
		undo = market.Release{ID: id, By: g.Cluster, Reason: api.ReasonNotAccepted}
	case ours.Changing() != nil:
		undo = market.Refuse{ID: id, By: g.Cluster, Generation: ours.Change.Generation, Reason: api.ReasonNotAccepted}
	default:
		return nil
	}
	_, err := g.Market.Do(ctx, market.IfRevision{ID: id, Revision: ours.Revision, Command: undo}) // so that no commit comes in between
	return err
}

// sayEnd tells the broker, signed, that a reservation it believes in has ended here.
func (g *Gate) sayEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	document, err := g.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: ours.ID, Assignment: clusterkey.Digest(g.ended(theirs, ours)).String(),
		Generation: max(ours.Generation, theirs.Payload.Generation), By: g.Cluster,
		Consumer: ours.Consumer, Provider: g.Cluster, Reason: ours.Reason,
	})
	if err != nil {
		return err
	}
	_, err = g.Broker.Release(ctx, ours.ID, document)
	return unlessGone(err)
}

// ended is the assignment that an end of this gate names: the one that the broker shows, unless that is another one than the Ledger's, and
// could be accepted when the Ledger has forgotten its own. A broker that lies could otherwise keep the end of it for that day.
func (g *Gate) ended(theirs *transport.Reservation, ours *market.Reservation) string {
	shown := theirs.Payload.Assignment
	if ours.Assignment == "" || shown == ours.Assignment {
		return shown
	}
	var claimed api.Assignment
	if trust.Claimed(shown, &claimed) != nil || claimed.Expires.After(ours.Changed.Go().Add(remembered)) {
		return ours.Assignment
	}
	return shown
}

// remembered is less than how long a Ledger remembers what is over.
const remembered = 30 * time.Minute

// binds is until when an acceptance binds: longer than the assignment, by what clocks may differ.
func binds(a api.Assignment) metav1.Time { return metav1.NewTime(a.Expires.Add(market.SkewGrace)) }

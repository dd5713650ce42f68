package gate

import (
	"context"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Options say for which cluster a gate decides, and by what.
type Options struct {
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	// Former holds the fingerprints of the keys that Key succeeded. An assignment that names one of them is
	// still for this cluster.
	Former []string
	// Market holds the gate's own books, in the Ledger. Its clock is the gate's.
	Market *exchange.Exchange
	// Engine evaluates the expressions of the SharingPolicy and of offers.
	Engine *match.Engine
	// Broker is the main broker.
	Broker transport.Broker
	// Trust decides which keys of consumers count.
	Trust trust.Demand
	// Freed removes what an ended reservation still has here, and reports whether nothing is left. Nil, without
	// Liqo: there never is anything.
	Freed func(ctx context.Context, ours *market.Reservation) (bool, error)
	// Fresh measures the cluster for a refusal. It may return nil. Nil: a refusal has no measurement.
	Fresh func(context.Context) *api.Measurement
	Log   *slog.Logger
}

// Gate accepts or refuses reservations of this cluster's capacity. Several goroutines may use it, each for
// reservations of its own.
type Gate struct {
	Options
	via string // the route to Broker: see package route
}

// New returns the gate for reservations at the main broker.
func New(o Options) *Gate { return &Gate{Options: o} }

// At returns this gate for the reservations at another broker or connector.
func (g *Gate) At(via string, b transport.Broker) *Gate {
	at := *g
	at.via, at.Broker = via, b
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

// RefuseID refuses what a broker brings under the ID of a reservation that was made at another broker.
func (g *Gate) RefuseID(ctx context.Context, theirs *transport.Reservation) error {
	return g.refuse(ctx, theirs, api.Errorf(api.CodeConflict, "the ID %s is of a reservation at another broker", theirs.ID))
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

// binds is until when an acceptance binds: longer than the assignment, by what clocks may differ.
func binds(a api.Assignment) metav1.Time { return metav1.NewTime(a.Expires.Add(market.SkewGrace)) }

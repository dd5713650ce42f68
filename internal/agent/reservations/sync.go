package reservations

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// sync shows a reservation in Kubernetes and hands it to the half that it concerns. theirs is what
// the session shows of it, ours what the Ledger says; one of them may be nil.
func (r *Reservations) sync(
	ctx context.Context, s *session.Session, theirs *transport.Reservation, ours *market.Reservation,
) error {
	if ours != nil {
		if err := r.show(ctx, ours); err != nil {
			return err
		}
	}
	switch {
	case ours == nil && theirs.Payload.Provider != r.options.Cluster:
		if theirs.Payload.State.Counts() && theirs.Payload.Assignment != "" {
			r.options.Log.Warn("the broker shows a reservation that the Ledger does not know: it is left alone",
				"reservation", theirs.ID, "provider", theirs.Payload.Provider)
		}
		return nil // the controller of requests makes it known
	case ours == nil || ours.Provider == r.options.Cluster:
		if err := r.gateAt(s).Sync(ctx, theirs, ours); err != nil {
			return err
		}
	default:
		wish, err := r.options.Consumer.Requests.Look(ctx, ours)
		if err != nil {
			return err
		}
		if err := r.borrowerAt(s).Sync(ctx, theirs, ours, wish); err != nil {
			return err
		}
	}
	if theirs != nil && theirs.Payload.State.Over() && (ours == nil || ours.State.Over()) {
		s.Forget(theirs.ID)
	}
	return nil
}

// show makes the objects in Kubernetes that a reservation needs.
func (r *Reservations) show(ctx context.Context, ours *market.Reservation) error {
	if r.options.Peer != nil {
		if err := r.options.Peer(ctx, ours); err != nil {
			return err
		}
	}
	namespace := r.options.Namespace
	if ours.Object != nil { // the request that bought
		namespace = ours.Object.Namespace
	}
	again, err := r.options.Contracts.Show(ctx, namespace, ours)
	if err != nil {
		return err
	}
	if again > 0 {
		r.queue.AddAfter(ours.ID, again)
	}
	if ours.Provider != r.options.Cluster {
		return nil
	}
	again, err = r.options.Provider.Instructions.Show(ctx, ours)
	if err != nil {
		return err
	}
	if again > 0 {
		r.queue.AddAfter(ours.ID, again)
	}
	if r.options.Provider.Lent != nil {
		r.options.Provider.Lent(ours.Consumer)
	}
	if ours.Offer != nil {
		r.options.Provider.Offers.Look(ours.Offer.Signed.Name)
	}
	return nil
}

// applySigned takes from a session whose word does not count what the parties signed: an end. It
// refuses a reservation that a broker brings under the ID of another one.
func (r *Reservations) applySigned(
	ctx context.Context, s *session.Session, theirs *transport.Reservation, ours *market.Reservation,
) error {
	t := theirs.Payload
	switch {
	case ours == nil:
		return nil
	case t.State.Over() && ours.State.Over():
		s.Forget(theirs.ID)
		return nil
	case t.End != "" && ours.Provider == r.options.Cluster && s.Lends:
		return r.gateAt(s).ApplySignedEnd(ctx, theirs, ours)
	case t.End != "" && ours.Consumer == r.options.Cluster:
		return r.borrowerAt(s).ApplySignedEnd(ctx, theirs, ours)
	case t.State == api.Held && t.Assignment != "" && t.Provider == r.options.Cluster && s.Lends:
		return r.gateAt(s).RefuseID(ctx, theirs)
	}
	return nil
}

// gateAt returns the gate for the reservations of a session.
func (r *Reservations) gateAt(s *session.Session) *gate.Gate {
	return r.options.Provider.Gate.At(s.Via, s.Broker)
}

// borrowerAt returns the borrower for the reservations of a session. This cluster does not borrow
// at its own connector: what that shows is of the main broker.
func (r *Reservations) borrowerAt(s *session.Session) *requests.Borrower {
	if s.Via == r.options.Cluster {
		return r.options.Consumer.Borrower
	}
	return r.options.Consumer.Borrower.At(s.Via, s.Broker)
}

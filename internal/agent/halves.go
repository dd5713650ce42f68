package agent

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/gate"
	"github.com/bourse-dev/bourse/internal/agent/requests"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// halves hands each reservation to the half of the agent that it concerns.
type halves struct {
	cluster      string
	gate         *gate.Gate
	borrower     *requests.Borrower
	reader       client.Reader
	instructions *gate.Instructions
	offers       *gate.Offers
	contracts    *contract.Book
	peerings     *peerings // nil without Liqo
	requests     *kubeobject.Trigger
	log          *slog.Logger
}

func (h *halves) sync(ctx context.Context, s *brokersession.Session, theirs *transport.Reservation, ours *market.Reservation) error {
	if h.peerings != nil && ours != nil {
		if err := h.peerings.follow(ctx, ours); err != nil {
			return err
		}
	}
	if ours != nil {
		if err := h.contracts.Show(ctx, h.placeOf(ours), ours); err != nil {
			return err
		}
	}
	switch {
	case ours != nil && ours.Provider == h.cluster, ours == nil && theirs.Payload.Provider == h.cluster:
		if ours != nil {
			if err := h.instructions.Show(ctx, ours); err != nil {
				return err
			}
			if ours.Offer != nil { // what is left of its plan is another now
				h.offers.Look(ours.Offer.Signed.Name)
			}
		}
		if err := h.gate.At(s.Via, s.Broker).Sync(ctx, theirs, ours); err != nil {
			return err
		}
	case ours == nil:
		if theirs.Payload.State.Counts() && theirs.Payload.Assignment != "" {
			h.log.Warn("the broker shows a reservation that no request of this cluster's ledger made: left alone", "reservation", theirs.ID, "provider", theirs.Payload.Provider)
		}
		return nil // the request's own controller takes it up
	default:
		wish, err := h.wish(ctx, ours)
		if err != nil {
			return err
		}
		if err := h.borrowerAt(s).Sync(ctx, theirs, ours, wish); err != nil {
			return err
		}
	}
	if theirs != nil && theirs.Payload.State.Over() && (ours == nil || ours.State.Over()) {
		s.Forget(theirs.ID)
	}
	return nil
}

// borrowerAt returns the borrower for a session. There is none of its own for this cluster's connector, at which it does not borrow.
func (h *halves) borrowerAt(s *brokersession.Session) *requests.Borrower {
	if s.Via == h.cluster {
		return h.borrower
	}
	return h.borrower.At(s.Via, s.Broker)
}

// pass takes from a session what counts although its word does not: an end that a party signed. It refuses what the broker brings under
// the ID of another reservation.
func (h *halves) pass(ctx context.Context, s *brokersession.Session, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case ours == nil:
		return nil
	case t.State.Over() && ours.State.Over():
		s.Forget(theirs.ID)
		return nil
	case t.End != "" && ours.Provider == h.cluster && s.Lends:
		return h.gate.At(s.Via, s.Broker).HearEnd(ctx, theirs, ours)
	case t.End != "" && ours.Consumer == h.cluster:
		return h.borrowerAt(s).HearEnd(ctx, theirs, ours)
	case t.State == api.Held && t.Assignment != "" && t.Provider == h.cluster && s.Lends:
		return h.gate.At(s.Via, s.Broker).RefuseID(ctx, theirs)
	}
	return nil
}

// placeOf is the namespace in which a contract of ours is shown: that of the request that bought, or the agent's where it sold.
func (h *halves) placeOf(ours *market.Reservation) string {
	if ours.Object != nil {
		return ours.Object.Namespace
	}
	return h.instructions.Namespace
}

// wish reads the request behind a reservation of ours, nil if it is gone, and lets its controller look again.
func (h *halves) wish(ctx context.Context, ours *market.Reservation) (*requests.Wish, error) {
	if ours.Object == nil {
		return nil, nil
	}
	object := &api.ResourceRequest{}
	object.Namespace, object.Name = ours.Object.Namespace, ours.Object.Name
	h.requests.Add(object.Namespace, object.Name)
	err := h.reader.Get(ctx, client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil || string(object.UID) != ours.Object.UID || object.DeletionTimestamp != nil {
		return nil, nil
	}
	wish := requests.WishOf(object)
	return &wish, nil
}

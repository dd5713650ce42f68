package requests

import (
	"context"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Borrower is a consumer's side of its reservations. Its state is in the Ledger. Several goroutines
// may use it, each for reservations of its own.
type Borrower struct {
	BorrowerOptions
	via      string // the Via of Broker: see package session
	answered *answered
}

// BorrowerOptions say which cluster borrows, and by what it decides.
type BorrowerOptions struct {
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	// Market is that of the Ledger. Its clock is the borrower's.
	Market *exchange.Exchange
	// Broker is the main broker.
	Broker transport.Broker
	// Trust decides which keys of providers count.
	Trust trust.Demand
	// Reach returns why this cluster could not use the capacity of a provider, before anything is signed. An
	// error with a code in refusals passes the provider over. Nil: this cluster can use any provider.
	Reach func(ctx context.Context, provider *api.Card, asked api.Request) error
	// Fit returns why this cluster cannot borrow from any provider, before the broker is asked. Nil: it can.
	// Errors: Unavailable.
	Fit func(ctx context.Context) error
	// Joins says that this cluster takes part in networks with others.
	Joins bool
	Log   *slog.Logger
}

// NewBorrower returns the borrower for reservations at the main broker.
func NewBorrower(o BorrowerOptions) *Borrower {
	return &Borrower{BorrowerOptions: o, answered: &answered{}}
}

// At returns this borrower for the reservations at another broker or connector.
func (b *Borrower) At(via string, broker transport.Broker) *Borrower {
	at := *b
	at.via, at.Broker = via, broker
	return &at
}

// refusals are the errors for which a provider is passed over, and the reason that users read.
var refusals = map[api.Code]api.Reason{
	api.CodeKeyChanged:     api.ReasonKeyChanged,
	api.CodeKeyUnconfirmed: api.ReasonKeyUnconfirmed,
	api.CodeUnreachable:    api.ReasonUnreachable,
	api.CodeNoNetwork:      api.ReasonNoNetwork,
	api.CodeInUse:          api.ReasonInUse,
	api.CodeNamespacesFull: api.ReasonNamespacesFull,
}

// CheckRequest returns why this cluster could not use what a request asks for, nil if it could.
// Errors: Invalid, with the field.
func (b *Borrower) CheckRequest(r api.Request) error {
	if r.Network == api.NetworkWireGuard && !b.Joins {
		return api.Invalid("network", "this cluster takes part in no network").
			Fix("start its agent with --network-gateway; its Liqo needs networking")
	}
	for _, name := range []corev1.ResourceName{"memory", "ephemeral-storage", "storage"} {
		if q, asked := r.Resources[name]; asked && q.Sign() > 0 && q.Value() < 1<<20 { // the unit is missing
			return api.Invalid("request.resources."+string(name), "%s is %d bytes", q.String(), q.Value()).
				Fix("write the unit, for example %dGi", q.Value())
		}
	}
	return nil
}

// CheckAsk returns why this cluster asks no broker for a request, nil if it does. Errors: Invalid, with the field;
// Fit's.
func (b *Borrower) CheckAsk(ctx context.Context, r api.Request) error {
	if err := b.CheckRequest(r); err != nil || b.Fit == nil {
		return err
	}
	return b.Fit(ctx)
}

// Ask makes the reservation of a wish at the broker and acts on the answer. Repeating it is
// harmless. Errors: the broker's; Fit's; Invalid if this cluster could not use it; BadSignature and
// KeyChanged if the answer cannot be right.
func (b *Borrower) Ask(ctx context.Context, w Wish) error {
	if err := b.CheckAsk(ctx, w.Request); err != nil {
		return err
	}
	theirs, err := b.reserve(ctx, w)
	if err != nil {
		return err
	}
	if len(theirs.Payload.Group) > 0 {
		return b.askParts(ctx, &theirs, w)
	}
	return b.handleAnswer(ctx, &theirs, w)
}

// handleAnswer acts on the broker's answer to a wish.
func (b *Borrower) handleAnswer(ctx context.Context, theirs *transport.Reservation, w Wish) error {
	ours, err := b.matchAnswer(ctx, theirs, w)
	if err != nil {
		return err
	}
	if ours != nil && (ours.State.Over() || ours.State == api.Releasing) { // this ID is over: sign nothing more under it
		return b.publishEnd(ctx, theirs, ours)
	}
	switch t := theirs.Payload; {
	case t.State == api.Held && t.Assignment == "":
		return b.signHold(ctx, theirs, ours, w)
	case (t.State.Over() || t.State == api.Pending) && t.Assignment == "": // it waits, or is over before we signed
		is, err := newRecord(theirs)
		if err != nil {
			return err
		}
		is.Object = &w.Object
		return b.recordState(ctx, theirs, is)
	default:
		return b.restore(ctx, theirs, w)
	}
}

// matchAnswer returns what the Ledger says of the reservation with which the broker answers a wish,
// nil if nothing. Errors: BadSignature if the answer is invalid or too long, or the reservation of
// another object.
func (b *Borrower) matchAnswer(
	ctx context.Context, theirs *transport.Reservation, w Wish,
) (*market.Reservation, error) {
	if err := trust.CheckShown(theirs.Payload); err != nil {
		return nil, err
	}
	state := theirs.Payload.State
	if err := market.ValidCluster("id", theirs.ID); err != nil || !slices.Contains(api.States, state) {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with a reservation %.80q in state %.40q",
			theirs.ID, state)
	}
	known, err := b.Market.Reservation(ctx, theirs.ID)
	if err != nil {
		return nil, err
	}
	if known != nil && (known.Object == nil || *known.Object != w.Object) {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with reservation %s, which is of another object",
			theirs.ID)
	}
	return known, nil
}

// Sync acts on the difference between what the broker shows of a reservation (theirs, nil if
// nothing) and what the Ledger says (ours). wish is what its object asks for, nil if that is gone.
// Call it after each change of either, and again after an error. Repeating it is harmless. Errors:
// BadSignature if what the broker shows cannot be right, or is too long; the broker's.
func (b *Borrower) Sync(
	ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, wish *Wish,
) error {
	if theirs == nil || theirs.Payload.Fence.Before(ours.Fence) {
		return nil
	}
	if err := trust.CheckShown(theirs.Payload); err != nil {
		return err
	}
	answered := b.answered.has(theirs.ID, theirs.Payload.Fence)
	if !answered {
		b.answered.Delete(theirs.ID)
	}
	b.Trust.Greet(ctx, b.Market, theirs.Payload.ProviderCard, ours.Provider)
	if changed, err := b.applyReclaim(ctx, theirs, ours); changed || err != nil {
		return err // the Ledger's change brings us here again
	}
	switch t := theirs.Payload; {
	case !slices.Contains(api.States, t.State):
		return nil // of a later version of the broker, or invalid
	case ours.State.Over() || ours.State == api.Releasing:
		return b.publishEnd(ctx, theirs, ours)
	case t.State == api.Held && ours.Acceptance != "":
		return b.remindBroker(ctx, theirs, ours)
	case t.State == api.Held && wish != nil && !answered && (t.Assignment == "" || t.Generation > ours.Generation):
		return b.signHold(ctx, theirs, ours, *wish)
	case t.State == api.Pending && ours.Acceptance == "": // it waits again: nobody accepted what we signed
		again, err := newRecord(theirs)
		if err != nil {
			return err
		}
		again.Object, again.Via, again.Revision = ours.Object, ours.Via, ours.Revision
		again.State, again.Size = ours.State, ours.Size
		return b.recordState(ctx, theirs, again)
	default:
		return b.followBroker(ctx, theirs, ours)
	}
}

// followBroker records the state that the broker shows, as far as a signature or our own Ledger supports it.
func (b *Borrower) followBroker(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State == api.Reserved || t.State == api.Active:
		if ours.Acceptance != "" && t.Generation < ours.Generation {
			return b.remindBroker(ctx, theirs, ours)
		}
		next := ours
		if t.Assignment != ours.Assignment {
			if again, err := b.readSigned(ctx, theirs, ours); err == nil {
				next = b.pickNewer(ctx, theirs, ours, again)
			}
		}
		if err := b.verifyAcceptance(ctx, t, next); err != nil {
			b.Log.Warn("the broker shows an acceptance without the provider's valid signature: not believed",
				"reservation", theirs.ID, "error", err)
			return nil
		}
		// we say when it is Active: the broker missed it
		if next == ours && ours.State == api.Active && t.State == api.Reserved {
			_, err := b.Broker.Progress(ctx, theirs.ID, api.Active)
			return transport.IgnoreGone(err)
		}
		return b.recordState(ctx, theirs, next)
	case t.State == api.Releasing || t.State == api.Released:
		next := ours
		if t.End != "" && t.Generation > ours.Generation { // it ends a newer assignment, which the Ledger lost
			if again, err := b.readSigned(ctx, theirs, ours); err == nil {
				if newest := b.pickNewer(ctx, theirs, ours, again); b.verifyAcceptance(ctx, t, newest) == nil {
					next = newest
				}
			}
		}
		if end, signed := b.verifyEnd(ctx, t.End, next); signed {
			return b.record(ctx, theirs, ours, &end)
		} else if ours.Acceptance == "" && t.End == "" {
			return b.recordState(ctx, theirs, ours)
		}
		return nil // without a signature it ends with its time
	case t.State.Over() && ours.Acceptance == "":
		return b.recordState(ctx, theirs, ours) // it was never bound: the broker may end it
	default:
		return nil
	}
}

// verifyAcceptance verifies the provider's acceptance of the assignment that we signed. It must be
// by the key that the provider has now, or by the one that the assignment names. An acceptance in
// the Ledger was verified before.
func (b *Borrower) verifyAcceptance(ctx context.Context, t api.Reservation, ours *market.Reservation) error {
	if ours.Acceptance != "" && t.Acceptance == ours.Acceptance && t.Provider == ours.Provider {
		return nil
	}
	keys, err := trust.Keys(ctx, b.Market, ours.Provider)
	if err != nil {
		return err
	}
	var a api.Acceptance
	key, err := trust.Verified(t.Acceptance, api.DocumentAcceptance, &a, keys...)
	if err != nil {
		return err
	}
	if key != keys[0] && !b.namesKey(ctx, ours.Assignment, key) {
		return api.Errorf(api.CodeBadSignature, "the acceptance is by a former key of %s", ours.Provider)
	}
	digest := clusterkey.Digest(ours.Assignment).String()
	if a.Assignment != digest || a.Generation != ours.Generation || t.Provider != ours.Provider {
		return api.Errorf(api.CodeBadSignature, "the acceptance is of another assignment")
	}
	return nil
}

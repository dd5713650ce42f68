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
	copied := *b
	copied.via, copied.Broker = via, broker
	return &copied
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
	shown, err := b.reserve(ctx, w)
	if err != nil {
		return err
	}
	if len(shown.Payload.Group) > 0 {
		return b.askParts(ctx, &shown, w)
	}
	return b.handleAnswer(ctx, &shown, w)
}

// handleAnswer acts on the broker's answer to a wish.
func (b *Borrower) handleAnswer(ctx context.Context, shown *transport.Reservation, w Wish) error {
	record, err := b.matchAnswer(ctx, shown, w)
	if err != nil {
		return err
	}
	// this ID is over: sign nothing more under it
	if record != nil && (record.State.Over() || record.State == api.Releasing) {
		return b.publishEnd(ctx, shown, record)
	}
	switch t := shown.Payload; {
	case t.State == api.Held && t.Assignment == "":
		return b.signHold(ctx, shown, record, w)
	case (t.State.Over() || t.State == api.Pending) && t.Assignment == "": // it waits, or is over before we signed
		record, err := newRecord(shown)
		if err != nil {
			return err
		}
		record.Object = &w.Object
		return b.recordState(ctx, shown, record)
	default:
		return b.restore(ctx, shown, w)
	}
}

// matchAnswer returns what the Ledger says of the reservation with which the broker answers a wish,
// nil if nothing. Errors: BadSignature if the answer is invalid or too long, or the reservation of
// another object.
func (b *Borrower) matchAnswer(
	ctx context.Context, shown *transport.Reservation, w Wish,
) (*market.Reservation, error) {
	if err := trust.CheckShown(shown.Payload); err != nil {
		return nil, err
	}
	state := shown.Payload.State
	if err := market.ValidCluster("id", shown.ID); err != nil || !slices.Contains(api.States, state) {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with a reservation %.80q in state %.40q",
			shown.ID, state)
	}
	known, err := b.Market.Reservation(ctx, shown.ID)
	if err != nil {
		return nil, err
	}
	if known != nil && (known.Object == nil || *known.Object != w.Object) {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with reservation %s, which is of another object",
			shown.ID)
	}
	return known, nil
}

// Sync acts on the difference between what the broker shows of a reservation (shown, nil if
// nothing) and what the Ledger says (record). wish is what its object asks for, nil if that is gone.
// Call it after each change of either, and again after an error. Repeating it is harmless. Errors:
// BadSignature if what the broker shows cannot be right, or is too long; the broker's.
func (b *Borrower) Sync(
	ctx context.Context, shown *transport.Reservation, record *market.Reservation, wish *Wish,
) error {
	if shown == nil || shown.Payload.Fence.Before(record.Fence) {
		return nil
	}
	if err := trust.CheckShown(shown.Payload); err != nil {
		return err
	}
	answered := b.answered.has(shown.ID, shown.Payload.Fence)
	if !answered {
		b.answered.Delete(shown.ID)
	}
	b.Trust.Greet(ctx, b.Market, shown.Payload.ProviderCard, record.Provider)
	if changed, err := b.applyReclaim(ctx, shown, record); changed || err != nil {
		return err // the Ledger's change brings us here again
	}
	switch t := shown.Payload; {
	case !slices.Contains(api.States, t.State):
		return nil // of a later version of the broker, or invalid
	case record.State.Over() || record.State == api.Releasing:
		return b.publishEnd(ctx, shown, record)
	case t.State == api.Held && record.Acceptance != "":
		return b.remindBroker(ctx, shown, record)
	case t.State == api.Held && wish != nil && !answered && (t.Assignment == "" || t.Generation > record.Generation):
		return b.signHold(ctx, shown, record, *wish)
	case t.State == api.Pending && record.Acceptance == "": // it waits again: nobody accepted what we signed
		again, err := newRecord(shown)
		if err != nil {
			return err
		}
		again.Object, again.Via, again.Revision = record.Object, record.Via, record.Revision
		again.State, again.Size = record.State, record.Size
		return b.recordState(ctx, shown, again)
	default:
		return b.followBroker(ctx, shown, record)
	}
}

// followBroker records the state that the broker shows, as far as a signature or our own Ledger supports it.
func (b *Borrower) followBroker(ctx context.Context, shown *transport.Reservation, record *market.Reservation) error {
	t := shown.Payload
	switch {
	case t.State == api.Reserved || t.State == api.Active:
		if record.Acceptance != "" && t.Generation < record.Generation {
			return b.remindBroker(ctx, shown, record)
		}
		next := record
		if t.Assignment != record.Assignment {
			if again, err := b.readSigned(ctx, shown, record); err == nil {
				next = b.pickNewer(ctx, shown, record, again)
			}
		}
		if err := b.verifyAcceptance(ctx, t, next); err != nil {
			b.Log.Warn("the broker shows an acceptance without the provider's valid signature: not believed",
				"reservation", shown.ID, "error", err)
			return nil
		}
		// we say when it is Active: the broker missed it
		if next == record && record.State == api.Active && t.State == api.Reserved {
			_, err := b.Broker.Progress(ctx, shown.ID, api.Active)
			return transport.IgnoreGone(err)
		}
		return b.recordState(ctx, shown, next)
	case t.State == api.Releasing || t.State == api.Released:
		next := record
		if t.End != "" && t.Generation > record.Generation { // it ends a newer assignment, which the Ledger lost
			if again, err := b.readSigned(ctx, shown, record); err == nil {
				if newest := b.pickNewer(ctx, shown, record, again); b.verifyAcceptance(ctx, t, newest) == nil {
					next = newest
				}
			}
		}
		if end, signed := b.verifyEnd(ctx, t.End, next); signed {
			return b.record(ctx, shown, record, &end)
		} else if record.Acceptance == "" && t.End == "" {
			return b.recordState(ctx, shown, record)
		}
		return nil // without a signature it ends with its time
	case t.State.Over() && record.Acceptance == "":
		return b.recordState(ctx, shown, record) // it was never bound: the broker may end it
	default:
		return nil
	}
}

// verifyAcceptance verifies the provider's acceptance of the assignment that we signed. It must be
// by the key that the provider has now, or by the one that the assignment names. An acceptance in
// the Ledger was verified before.
func (b *Borrower) verifyAcceptance(ctx context.Context, t api.Reservation, record *market.Reservation) error {
	if record.Acceptance != "" && t.Acceptance == record.Acceptance && t.Provider == record.Provider {
		return nil
	}
	keys, err := trust.Keys(ctx, b.Market, record.Provider)
	if err != nil {
		return err
	}
	var a api.Acceptance
	key, err := trust.Verified(t.Acceptance, api.DocumentAcceptance, &a, keys...)
	if err != nil {
		return err
	}
	if key != keys[0] && !b.namesKey(ctx, record.Assignment, key) {
		return api.Errorf(api.CodeBadSignature, "the acceptance is by a former key of %s", record.Provider)
	}
	digest := clusterkey.Digest(record.Assignment).String()
	if a.Assignment != digest || a.Generation != record.Generation || t.Provider != record.Provider {
		return api.Errorf(api.CodeBadSignature, "the acceptance is of another assignment")
	}
	return nil
}

package requests

import (
	"context"
	"log/slog"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Borrower is a consumer's side of its reservations. What it must not forget is in the Ledger.
type Borrower struct {
	BorrowerOptions
	via      string // the route to Broker: see package route
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

// refusals are the errors for which a provider is passed over, and the reason that people read.
var refusals = map[api.Code]api.Reason{
	api.CodeKeyChanged:     api.ReasonKeyChanged,
	api.CodeKeyUnconfirmed: api.ReasonKeyUnconfirmed,
	api.CodeUnreachable:    api.ReasonUnreachable,
	api.CodeNoNetwork:      api.ReasonNoNetwork,
}

// Wish is a request of this cluster: the object that made it, what it asks, and whether its
// user has confirmed it.
type Wish struct {
	Object    market.Object
	Request   api.Request
	Confirmed bool
	// Reservation is what it has become, as far as is known.
	Reservation string

	// part is the size of the part of it that is taken up, nil: it is whole. remember says to sign nothing yet.
	part     api.Resources
	remember bool
}

// Able says whether this cluster can use what a request asks for. Errors: Invalid with the field.
func (b *Borrower) Able(r api.Request) error {
	if r.Network == api.NetworkWireGuard && !b.Joins {
		return api.Invalid("network", "this cluster takes part in no network").Fix("start its agent with --network-gateway, where its Liqo has networking")
	}
	return nil
}

// Ask makes the reservation of a wish at the broker and takes it up. Repeating it is harmless.
// Errors: the broker's; Fit's; Invalid when this cluster cannot use it; BadSignature and KeyChanged when it answers with what cannot be right.
func (b *Borrower) Ask(ctx context.Context, w Wish) error {
	if err := b.Able(w.Request); err != nil {
		return err
	}
	if b.Fit != nil {
		if err := b.Fit(ctx); err != nil {
			return err
		}
	}
	theirs, err := b.Broker.Reserve(ctx, w.Object.UID, w.Request)
	if api.CodeOf(err) == api.CodeKeyReused && w.Reservation != "" { // it has been edited since it was made
		theirs, err = b.Broker.Reservation(ctx, w.Reservation)
	}
	if err != nil {
		return err
	}
	if len(theirs.Payload.Group) > 0 {
		return b.askParts(ctx, &theirs, w)
	}
	return b.takeUp(ctx, &theirs, w)
}

// takeUp takes up what the broker answers.
func (b *Borrower) takeUp(ctx context.Context, theirs *transport.Reservation, w Wish) error {
	ours, err := b.answersThis(ctx, theirs, w)
	if err != nil {
		return err
	}
	if ours != nil && (ours.State.Over() || ours.State == api.Releasing) { // under an ID that is over here nothing more is signed
		return b.finish(ctx, theirs, ours)
	}
	switch t := theirs.Payload; {
	case t.State == api.Held && t.Assignment == "":
		return b.take(ctx, theirs, ours, w)
	case (t.State.Over() || t.State == api.Pending) && t.Assignment == "": // rejected, or failed, before anything was signed; or it waits
		is, err := record(theirs)
		if err != nil {
			return err
		}
		is.Object = &w.Object
		return b.note(ctx, theirs, is)
	default:
		return b.recover(ctx, theirs, w)
	}
}

// answersThis refuses an answer that names what cannot be, or the reservation of something else. It returns what the
// Ledger knows of it, nil if nothing.
func (b *Borrower) answersThis(ctx context.Context, theirs *transport.Reservation, w Wish) (*market.Reservation, error) {
	if err := market.ValidCluster("id", theirs.ID); err != nil || !slices.Contains(api.States, theirs.Payload.State) {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with a reservation %.80q in state %.40q", theirs.ID, theirs.Payload.State)
	}
	var known *market.Reservation
	if err := b.Market.Read(ctx, func(s *market.State) { known = s.Reservation(theirs.ID) }); err != nil {
		return nil, err
	}
	if known != nil && (known.Object == nil || *known.Object != w.Object) {
		return nil, api.Errorf(api.CodeBadSignature, "the broker answers with reservation %s, which is of something else", theirs.ID)
	}
	return known, nil
}

// Sync brings what the broker says of a reservation (theirs, nil if it says nothing) and what the
// Ledger says (ours) together. wish is nil when the object is gone.
func (b *Borrower) Sync(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, wish *Wish) error {
	if theirs == nil || theirs.Payload.Fence.Before(ours.Fence) {
		return nil
	}
	answered := b.answered.has(theirs.ID, theirs.Payload.Fence)
	if !answered {
		b.answered.forget(theirs.ID)
	}
	b.Trust.Greet(ctx, b.Market, theirs.Payload.ProviderCard, ours.Provider)
	if heard, err := b.reclaimed(ctx, theirs, ours); heard || err != nil {
		return err // its change brings us here again
	}
	switch t := theirs.Payload; {
	case !slices.Contains(api.States, t.State):
		return nil // of a later version, or nonsense
	case ours.State.Over() || ours.State == api.Releasing:
		return b.finish(ctx, theirs, ours)
	case t.State == api.Held && ours.Acceptance != "":
		return b.remind(ctx, theirs, ours)
	case t.State == api.Held && wish != nil && !answered && (t.Assignment == "" || t.Generation > ours.Generation):
		return b.take(ctx, theirs, ours, *wish)
	case t.State == api.Pending && ours.Acceptance == "": // it waits again: what was signed nobody accepted
		again, err := record(theirs)
		if err != nil {
			return err
		}
		again.Object, again.Via, again.Revision, again.State, again.Size = ours.Object, ours.Via, ours.Revision, ours.State, ours.Size
		return b.note(ctx, theirs, again)
	default:
		return b.settle(ctx, theirs, ours)
	}
}

// settle believes what the broker says as far as a signature or our own knowledge supports it.
func (b *Borrower) settle(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State == api.Reserved || t.State == api.Active:
		if ours.Acceptance != "" && t.Generation < ours.Generation {
			return b.remind(ctx, theirs, ours)
		}
		next := ours
		if t.Assignment != ours.Assignment {
			if again, err := b.signed(ctx, theirs, ours); err == nil {
				next = b.newer(ctx, theirs, ours, again)
			}
		}
		if err := b.bound(ctx, t, next); err != nil {
			b.Log.Warn("the broker says that the provider accepted, the provider's signature does not", "reservation", theirs.ID, "error", err)
			return nil
		}
		if next == ours && ours.State == api.Active && t.State == api.Reserved { // this cluster's own word, which is not taken back by who has not heard it
			_, err := b.Broker.Progress(ctx, theirs.ID, api.Active)
			return unlessMovedOn(err)
		}
		return b.note(ctx, theirs, next)
	case t.State == api.Releasing || t.State == api.Released:
		next := ours
		if t.End != "" && t.Generation > ours.Generation { // it ends a newer assignment, which the Ledger lost
			if again, err := b.signed(ctx, theirs, ours); err == nil {
				if newest := b.newer(ctx, theirs, ours, again); b.bound(ctx, t, newest) == nil {
					next = newest
				}
			}
		}
		if ours.Acceptance == "" && t.End == "" || b.endSigned(ctx, t.End, next) {
			return b.note(ctx, theirs, ours)
		}
		return nil // without a signature it ends with its time
	case t.State.Over() && ours.Acceptance == "":
		return b.note(ctx, theirs, ours) // it was never bound: the broker may refuse
	default:
		return nil
	}
}

// bound verifies the provider's acceptance of the assignment that we signed: by the key that it has, or by the one that the
// assignment names. What the Ledger holds was verified when it came.
func (b *Borrower) bound(ctx context.Context, t api.Reservation, ours *market.Reservation) error {
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
	if key != keys[0] && !b.names(ctx, ours.Assignment, key) {
		return api.Errorf(api.CodeBadSignature, "the acceptance is by a key that %s had before it was asked", ours.Provider)
	}
	if a.Assignment != clusterkey.Digest(ours.Assignment).String() || a.Generation != ours.Generation || t.Provider != ours.Provider {
		return api.Errorf(api.CodeBadSignature, "the acceptance is of another assignment")
	}
	return nil
}

// unlessMovedOn is err, but nil where the broker says that the reservation is not what the call
// assumed: the next change says what it is.
func unlessMovedOn(err error) error {
	if code := api.CodeOf(err); err != nil && (code == api.CodeConflict || code == api.CodeNotFound) {
		return nil
	}
	return err
}

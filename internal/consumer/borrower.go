package consumer

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Borrower is a consumer's side of its reservations. What it must not forget is in the Ledger.
type Borrower struct {
	Cluster string
	Key     *clusterkey.Key
	Market  *exchange.Exchange
	Broker  transport.Broker
	// Via is the cluster whose connector Broker is, or "broker/NAME"; empty: it is the main broker.
	Via   string
	Trust trust.Demand
	// Reach says why this cluster could not use what a provider lends, before anything is signed. Nil: it could.
	// Errors that are an answer have a code in refusals.
	Reach func(ctx context.Context, provider *api.Card, asked api.Request) error
	// Fit says why this cluster can borrow nothing, whoever lends, before anybody is asked. Nil: it can. Errors: Unavailable.
	Fit func(ctx context.Context) error
	// Joins says that this cluster takes part in networks with others.
	Joins    bool
	Answered *Answered
	Log      *slog.Logger
}

// At returns this borrower for the reservations that are made at another broker or connector.
func (b *Borrower) At(via string, broker transport.Broker) *Borrower {
	at := *b
	at.Via, at.Broker = via, broker
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

// recover takes up a reservation that this cluster signed before its Ledger forgot it.
func (b *Borrower) recover(ctx context.Context, theirs *transport.Reservation, w Wish) error {
	ours, err := b.signed(ctx, theirs, nil)
	if err != nil {
		return err
	}
	ours.Object, ours.Group = &w.Object, theirs.Payload.Group
	// When it began the broker alone says: the wish is taken for what was agreed, until it is edited.
	ours.Created = market.At(ours.Until.Go().Add(-durationOf(w.Request)))
	if _, err := b.meet(ctx, theirs); err != nil {
		return err
	}
	if ours.Sale != nil {
		if ours.Offer, err = b.offer(ctx, theirs, ours.Sale); err != nil {
			return err
		}
	}
	t := theirs.Payload
	switch err := b.bound(ctx, t, ours); {
	case err == nil: // it is, or was, bound: from here on only signatures and time count
		ours.State, ours.Acceptance, ours.HeldUntil, ours.ApproveBy, ours.Via = api.Reserved, t.Acceptance, 0, 0, b.Via
		if _, err := b.Market.Do(ctx, market.Note{Reservation: ours}); err != nil {
			return err
		}
		return b.settle(ctx, theirs, ours)
	case t.State == api.Reserved || t.State == api.Active:
		return err
	default:
		return b.note(ctx, theirs, ours)
	}
}

// Sync brings what the broker says of a reservation (theirs, nil if it says nothing) and what the
// Ledger says (ours) together. wish is nil when the object is gone.
func (b *Borrower) Sync(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation, wish *Wish) error {
	if theirs == nil || theirs.Payload.Fence.Before(ours.Fence) {
		return nil
	}
	answered := b.Answered.has(theirs.ID, theirs.Payload.Fence)
	if !answered {
		b.Answered.forget(theirs.ID)
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

// newer is what this cluster signed last: the change of what is bound, or what it signed in a life that the Ledger has
// forgotten. Until it is seen that the provider accepted it, it is not believed.
func (b *Borrower) newer(ctx context.Context, theirs *transport.Reservation, ours, again *market.Reservation) *market.Reservation {
	if issued(again).Before(issued(ours)) { // of an earlier reservation that had the same ID
		return ours
	}
	if ours.Acceptance != "" && again.Generation > ours.Generation {
		next, change := *ours, again.AsIs()
		change.Generation, change.Assignment, change.From = again.Generation, again.Assignment, again.From
		next.Become(change, b.Market.Now())
		return &next
	}
	if ours.Acceptance != "" || again.Generation < ours.Generation {
		return ours
	}
	if _, err := b.meet(ctx, theirs); err != nil {
		return ours
	}
	again.Object, again.Created, again.Offer, again.Group = ours.Object, ours.Created, ours.Offer, ours.Group
	return again
}

// issued is when an assignment of ours was signed; the zero time where it is of before 2026-11-23, or where there is none.
func issued(r *market.Reservation) time.Time {
	var a api.Assignment
	if r.Assignment == "" || trust.Claimed(r.Assignment, &a) != nil {
		return time.Time{}
	}
	return a.Issued.Time
}

// remind tells a broker that was restored from a backup what both sides have signed since. What is bound
// does not move: whatever else it holds instead is not signed.
func (b *Borrower) remind(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	if t.State == api.Held && (t.Assignment != "" || t.Generation != ours.Generation) || t.Change.Pending() || ours.Changing() != nil {
		return nil
	}
	if t.Change != nil && t.Change.Generation >= ours.Generation { // it has given up waiting for it: once more, as a newer one
		return b.sign(ctx, ours, ours.AsIs(), max(t.Change.Generation, ours.Latest())+1)
	}
	_, err := b.Broker.Confirm(ctx, theirs.ID, ours.Assignment)
	return unlessMovedOn(err)
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

// HearEnd notes an end that a party signed, whoever passes that on. Nothing else that theirs says counts.
func (b *Borrower) HearEnd(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	if ours.State.Over() || ours.State == api.Releasing || !b.endSigned(ctx, theirs.Payload.End, ours) {
		return nil
	}
	end := transport.Reservation{ID: theirs.ID, Payload: api.Reservation{State: api.Releasing, Reason: theirs.Payload.Reason, End: theirs.Payload.End, Fence: ours.Fence}}
	return b.note(ctx, &end, ours)
}

func (b *Borrower) endSigned(ctx context.Context, document string, ours *market.Reservation) bool {
	_, signed := trust.EndSigned(document, ours, append(trust.Parties(ctx, b.Market, ours), b.Key.Public())...)
	return signed
}

// End ends a reservation of ours because its object is gone. The broker is told by finish, again and
// again until it knows.
func (b *Borrower) End(ctx context.Context, ours *market.Reservation) error {
	if ours.State.Over() || ours.State == api.Releasing {
		return nil
	}
	document, err := b.signEnd(ours, api.ReasonReleased)
	if err != nil {
		return err
	}
	_, err = b.Market.Do(ctx, market.Release{ID: ours.ID, By: b.Cluster, Generation: ours.Generation, Reason: api.ReasonReleased, Document: document})
	return err
}

// Disown ends a reservation of which the Ledger knows nothing: this cluster signed it, and lost it with an older
// state that was put back. Errors: NotFound when it is not this cluster's; the broker's.
func (b *Borrower) Disown(ctx context.Context, id string) error {
	theirs, err := b.Broker.Reservation(ctx, id)
	if err != nil {
		return err
	}
	ours, err := b.everSigned(ctx, &theirs)
	if err != nil {
		return api.Errorf(api.CodeNotFound, "no request of this cluster made reservation %.80q", id).Fix("see: bourse reservations")
	}
	document, err := b.signEnd(ours, api.ReasonReleased)
	if err != nil {
		return err
	}
	_, err = b.Broker.Release(ctx, id, document)
	return err
}

func (b *Borrower) signEnd(ours *market.Reservation, reason api.Reason) (string, error) {
	assignment := ""
	if ours.Assignment != "" {
		assignment = clusterkey.Digest(ours.Assignment).String()
	}
	return b.Key.Sign(api.DocumentEnd, api.End{
		Protocol: api.Protocol, Reservation: ours.ID, Assignment: assignment, Generation: ours.Generation, By: b.Cluster,
		Consumer: b.Cluster, Provider: ours.Provider, Reason: reason,
	})
}

// finish tells the broker of an end of ours until it knows, and notes when the provider is free of it.
func (b *Borrower) finish(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case t.State.Over() && ours.State.Over():
		return nil
	case t.State.Over():
		return b.note(ctx, theirs, ours)
	case t.State == api.Releasing && t.End != "" && !trust.NamesNothing(t.End):
		return nil
	}
	newest := *ours
	newest.Generation = max(t.Generation, ours.Generation) // it may have moved on meanwhile
	if t.Assignment != "" && t.Generation >= ours.Generation {
		newest.Assignment = t.Assignment
	}
	if ours.Acceptance == "" {
		newest.Provider = t.Provider
	}
	document, err := b.signEnd(&newest, ours.Reason)
	if err != nil {
		return err
	}
	_, err = b.Broker.Release(ctx, theirs.ID, document)
	if api.CodeOf(err) == api.CodeNotFound && ours.State == api.Releasing { // nobody is left to end it with
		newest = *ours
		newest.State = api.Released
		_, err = b.Market.Do(ctx, market.Note{Reservation: &newest})
	}
	return unlessMovedOn(err)
}

// unlessMovedOn is err, but nil where the broker says that the reservation is not what the call
// assumed: the next change says what it is.
func unlessMovedOn(err error) error {
	if code := api.CodeOf(err); err != nil && (code == api.CodeConflict || code == api.CodeNotFound) {
		return nil
	}
	return err
}

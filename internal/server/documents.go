package server

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

func (s *Server) confirm(ctx context.Context, in *signedCall) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		// verified before: agents repeat what may not have arrived
		if asked, generation := r.Asked(); asked != "" && asked == in.Body.Document {
			if r.Bound() {
				return market.Reassign{ID: in.ID, Consumer: l.Cluster, Generation: generation, Document: asked}, nil
			}
			return market.Confirm{ID: in.ID, Consumer: l.Cluster, Generation: generation, Document: asked}, nil
		}
		var a api.Assignment
		if err := s.verifyRelayed(in.Body.Document, api.DocumentAssignment, l.Member, &a); err != nil {
			return nil, err
		}
		provider := s.Exchange.View().Listing(r.Provider)
		if provider == nil || provider.Member == nil || a.Generation != r.Generation && !r.Bound() {
			return nil, api.Errorf(api.CodeConflict, "reservation %s is %s at generation %d, the assignment is of %d",
				r.ID, r.State, r.Generation, a.Generation).
				At("document.generation").Fix("read the reservation again and sign what it says")
		}
		held := market.AssignmentOf(r, fingerprint(l), fingerprint(provider))
		second := r.Assignment != "" && !r.Bound() // two calls of the consumer signed at the same time, and one has arrived
		if second {
			held.Expires = a.Expires // the deadline moved when the first arrived
		}
		if r.Bound() { // the consumer itself requests the new size
			held.Generation, held.Resources, held.Until, held.Expires = a.Generation, a.Resources, a.Until, a.Expires
			if held.Sale != nil && a.Sale != nil {
				held.Begins = a.Begins
				held.Sale = &api.Sale{Offer: held.Sale.Offer, Plan: held.Sale.Plan, Units: a.Sale.Units}
			}
		}
		if a.Protocol > api.Protocol {
			return nil, api.OtherProtocol(api.CodeInvalid, "the assignment", a.Protocol).At("document.protocol")
		}
		held.Protocol = max(1, a.Protocol) // an older version means the same
		if err := held.Differs(a); err != nil {
			return nil, err
		}
		if second {
			return nil, api.Errorf(api.CodeConflict, "reservation %s has another assignment of generation %d already", r.ID, r.Generation).
				At("document").Fix("read the reservation again: it shows the assignment")
		}
		if r.Bound() {
			return s.reassign(in, l.Cluster, provider, r, a)
		}
		return market.Confirm{ID: in.ID, Consumer: l.Cluster, Generation: a.Generation,
			Document: in.Body.Document, Caps: s.Caps}, nil
	})
}

// reassign returns the command for an assignment whose signature and parties are verified.
func (s *Server) reassign(in *signedCall, caller string, provider *market.Listing, r *market.Reservation,
	a api.Assignment) (market.Command, error) {
	size, err := amounts.ParseRequest("document.resources", a.Resources)
	if err != nil {
		return nil, err
	}
	if len(size) != len(a.Resources) {
		return nil, api.Invalid("document.resources", "it names resources with the amount 0").Fix("leave them out")
	}
	if len(size.Beyond(r.Size)) > 0 && s.mayComeBack(provider) { // to refuse would be final
		return nil, api.Errorf(api.CodeUnavailable,
			"this broker has just started, and cluster %s has not reported yet", r.Provider).Fix("try again")
	}
	units := int64(0)
	if a.Sale != nil && r.Offer != nil {
		if off := a.Begins.Sub(s.Exchange.Now().Go()).Abs(); off > market.DecideTime {
			return nil, api.Invalid("document.begins", "it is %s away", off.Round(time.Second)).Fix("sign when it begins: now")
		}
		if units = a.Sale.Units; r.Offer.Covers(*a.Sale, r.Pool, size) != nil {
			return nil, api.Invalid("document.resources", "they are not those of %d units of plan %s", units, a.Sale.Plan).
				Fix("sign what the plan sells")
		}
	}
	if left := a.Until.Sub(s.Exchange.Now().Go()); left > api.LongestDuration {
		return nil, api.Invalid("document.until", "it ends in %s", left.Round(time.Hour)).
			Fix("reserve for %s at most", api.LongestDuration)
	}
	return market.Reassign{ID: in.ID, Consumer: caller, Generation: a.Generation, Size: size, Units: units,
		From: market.At(a.Begins.Time), Until: market.At(a.Until.Time), Document: in.Body.Document, Caps: s.Caps}, nil
}

func fingerprint(l *market.Listing) string {
	key, err := clusterkey.ParsePublicKey(l.Member.Key)
	if err != nil {
		return ""
	}
	return key.Fingerprint().String()
}

func (s *Server) accept(ctx context.Context, in *signedCall) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		var a api.Acceptance
		if err := s.verifyRelayed(in.Body.Document, api.DocumentAcceptance, l.Member, &a); err != nil {
			return nil, err
		}
		assignment, generation := r.Asked()
		if a.Protocol > api.Protocol {
			return nil, api.OtherProtocol(api.CodeInvalid, "the acceptance", a.Protocol).At("document.protocol")
		}
		if a.Protocol < 1 || a.Reservation != in.ID || a.Generation != generation ||
			a.Consumer != r.Consumer || a.Provider != r.Provider || a.Provider != l.Cluster ||
			a.Assignment != clusterkey.Digest(assignment).String() {
			return nil, api.Errorf(api.CodeConflict, "the acceptance is of another assignment than the one that is held").
				At("document").Fix("read the reservation again and accept that")
		}
		return market.Accept{ID: in.ID, Provider: l.Cluster, Generation: a.Generation, Document: in.Body.Document}, nil
	})
}

func (s *Server) refuse(ctx context.Context, in *struct {
	Conditional
	Body api.Refusal
}) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		if err := checkReason("reason", in.Body.Reason); err != nil {
			return nil, err
		}
		if in.Body.Advertisement != nil {
			if err := s.Observe(ctx, l.Cluster, *in.Body.Advertisement); err != nil &&
				api.CodeOf(err) != api.CodeStaleAdvertisement {
				return nil, under("advertisement", err)
			}
		}
		return market.Refuse{ID: in.ID, By: l.Cluster, Generation: in.Body.Generation,
			Reason: in.Body.Reason, Message: trust.Text(in.Body.Message)}, nil
	})
}

func (s *Server) release(ctx context.Context, in *signedCall) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		if header, err := clusterkey.Peek(in.Body.Document); err == nil && header.Kind == api.DocumentReclaim {
			return s.reclaim(in, r, l)
		}
		var e api.End
		if err := s.verifyRelayed(in.Body.Document, api.DocumentEnd, l.Member, &e); err != nil {
			return nil, err
		}
		if e.Reservation != in.ID || e.By != l.Cluster {
			return nil, api.Invalid("document", "it ends reservation %.80q by %.80q", e.Reservation, e.By).
				Fix("sign the end of %s", in.ID)
		}
		if err := checkReason("document.reason", e.Reason); err != nil {
			return nil, err
		}
		names := trust.Names(e.Assignment, r) || r.Assignment == "" || r.State.Over() || r.End != ""
		if e.Protocol > api.Protocol || !names && e.Assignment == "" && e.Protocol < api.Protocol {
			return nil, api.OtherProtocol(api.CodeInvalid, "the end", e.Protocol).At("document.protocol")
		}
		if !names {
			return nil, api.Errorf(api.CodeConflict, "the end is of assignment %.60q, which is not that of reservation %s",
				e.Assignment, r.ID).
				At("document.assignment").Fix("read the reservation again and end that")
		}
		return market.Release{ID: in.ID, By: l.Cluster, Generation: e.Generation,
			Reason: e.Reason, Document: in.Body.Document, At: market.At(e.At.Time),
			Renews: trust.NamesNothing(r.End) && trust.Names(e.Assignment, r)}, nil
	})
}

// reclaim returns the command for a seller's document that ends a contract later.
func (s *Server) reclaim(in *signedCall, r *market.Reservation, l *market.Listing) (market.Command, error) {
	key, err := clusterkey.ParsePublicKey(l.Member.Key)
	if err != nil {
		return nil, err
	}
	if r.Provider != l.Cluster {
		return nil, api.Errorf(api.CodeForbidden, "only the seller takes a contract back").Fix("sign the end of %s", in.ID)
	}
	if err := checkCard(l.Member); err != nil {
		return nil, err
	}
	return trust.Reclaimed(in.Body.Document, r, key)
}

// checkReason rejects a reason outside the closed list, because others read it.
func checkReason(field string, r api.Reason) error {
	if trust.Known(r) {
		return nil
	}
	return api.Invalid(field, "%.40q is not a reason", string(r)).Fix("use one of: %v", trust.Reasons())
}

func (s *Server) progress(ctx context.Context, in *struct {
	Conditional
	Body api.Progress
}) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		if in.Body.State == api.Active {
			return market.Activate{ID: in.ID, Consumer: l.Cluster}, nil
		}
		return market.Free{ID: in.ID, Provider: l.Cluster}, nil
	})
}

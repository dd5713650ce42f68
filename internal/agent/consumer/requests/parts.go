package requests

import (
	"context"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// askParts acts on the parts into which the broker has split a request. It signs nothing before it
// knows that this cluster can use each of them. If it cannot use one, the broker holds that
// elsewhere, or all fail. Errors: BadSignature if the parts together are not what was asked; else
// as for one reservation.
func (b *Borrower) askParts(ctx context.Context, first *transport.Reservation, w Wish) error {
	if err := checkPartCount(len(first.Payload.Group), w.Request); err != nil {
		return err // before anything is read: the broker chooses how many it names
	}
	parts := make([]*transport.Reservation, len(first.Payload.Group))
	for i, id := range first.Payload.Group {
		if err := market.ValidCluster("id", id); err != nil {
			return api.Errorf(api.CodeBadSignature, "the broker answers with a part %.80q", id)
		}
		part, err := b.Broker.Reservation(ctx, id)
		if err != nil {
			return err
		}
		parts[i] = &part
	}
	if err := checkParts(parts, first.Payload.Group, w.Request); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Payload.State != api.Held || part.Payload.Assignment != "" {
			continue
		}
		if _, err := b.checkProvider(ctx, part, w); err != nil {
			return b.passOver(ctx, part, w, err)
		}
	}
	for _, w.remember = range []bool{true, false} { // all are recorded before any is signed
		for _, part := range parts {
			w.part = part.Payload.Resources
			if err := b.handleAnswer(ctx, part, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrongParts returns the error of parts that are no valid answer.
func wrongParts(what string) error {
	return api.Errorf(api.CodeBadSignature, "the broker answers with parts %s", what).
		Fix("nothing was signed; ask the broker's operator")
}

// checkPartCount returns why a request may not have that many parts, nil if it may.
func checkPartCount(count int, r api.Request) error {
	if count < 2 || count > int(r.Split) {
		return wrongParts("in another number")
	}
	return nil
}

// checkParts returns why parts are no valid answer to a request that may be split, nil if they are.
func checkParts(parts []*transport.Reservation, ids []string, r api.Request) error {
	var sum amounts.List
	on := map[string]bool{}
	for i, p := range parts {
		t := p.Payload
		if p.ID != ids[i] || slices.Index(ids, p.ID) != i || !slices.Equal(t.Group, ids) {
			return wrongParts("of something else")
		}
		if t.State.Counts() && on[t.Provider] {
			return wrongParts("on one provider")
		}
		on[t.Provider] = true
		size, err := amounts.ParseRequest("resources", t.Resources)
		if err != nil {
			return err
		}
		sum = sum.Plus(size)
	}
	if asked, err := amounts.ParseRequest("resources", r.Resources); err != nil || !sum.Equal(asked) {
		return wrongParts("that are not, together, what was asked")
	}
	return nil
}

// needsAsking reports whether the Ledger does not have all parts of a split request, or has some
// that are yet to be signed.
func needsAsking(parts []*market.Reservation, w Wish) bool {
	signed := func(r *market.Reservation) bool { return r.Assignment != "" }
	switch {
	case len(parts) == 0 || len(parts[0].Group) == 0:
		return false
	case !slices.ContainsFunc(parts, signed):
		return len(parts) < len(parts[0].Group) || !w.Request.Confirm
	default: // the Ledger forgets parts that are over
		return slices.ContainsFunc(parts, isUnconfirmed) && !w.Request.Confirm
	}
}

// isBroken reports whether a part of a request ended before it was bound. Then all parts must end.
func isBroken(parts []*market.Reservation) bool {
	return slices.ContainsFunc(parts, func(r *market.Reservation) bool {
		return len(r.Group) > 0 && r.State.Over() && r.Acceptance == ""
	})
}

// checkUnchanged returns an error if a wish asks for another size or end than the parts of a split
// request have.
func checkUnchanged(parts []*market.Reservation, w Wish) error {
	is := mergeParts(parts)
	if want, err := wantedChange(w, is); len(is.Group) == 0 || err != nil || sameChange(want, is.Unchanged()) {
		return err
	}
	return api.Invalid("resources", "a split request cannot change").
		Fix("make another request for more, or delete this one and make a new one")
}

// mergeParts returns the parts of a request as one reservation, for its status. Its state is that
// of the part that is least advanced, among those that are not over.
func mergeParts(parts []*market.Reservation) *market.Reservation {
	if len(parts) < 2 {
		return parts[0]
	}
	progress := func(r *market.Reservation) int {
		switch at := slices.Index(api.States, r.State); {
		case r.State == api.Releasing:
			return -1 // something ends
		case r.State == api.Released:
			return 2 * len(api.States)
		case r.State.Over():
			return len(api.States) + at
		default:
			return at
		}
	}
	least := slices.MinFunc(parts, func(a, b *market.Reservation) int { return progress(a) - progress(b) })
	merged := *least
	merged.ID = parts[0].Group[0]
	var providers []string
	merged.Size = nil
	for _, r := range parts {
		if r.Provider != "" && (!r.State.Over() || least.State.Over()) {
			providers = append(providers, r.Provider)
		}
		merged.Size = merged.Size.Plus(r.Size)
	}
	merged.Provider = strings.Join(providers, ",")
	return &merged
}

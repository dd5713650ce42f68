package requests

import (
	"context"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// askParts takes up the parts of a request that the broker has split. Nothing is signed before each of them is known to be usable; one
// that is not the broker holds elsewhere, or all have failed.
// Errors: BadSignature when together they are not what was asked; else as of one.
func (b *Borrower) askParts(ctx context.Context, first *transport.Reservation, w Wish) error {
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
	if err := together(parts, first.Payload.Group, w.Request); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Payload.State != api.Held || part.Payload.Assignment != "" {
			continue
		}
		if _, err := b.usable(ctx, part, w.Request); err != nil {
			return b.passOver(ctx, part, w, err)
		}
	}
	for _, w.remember = range []bool{true, false} { // all are remembered before any is signed
		for _, part := range parts {
			w.part = part.Payload.Resources
			if err := b.takeUp(ctx, part, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// together says why parts are not an answer to a request that may be split, or nil.
func together(parts []*transport.Reservation, ids []string, r api.Request) error {
	wrong := func(what string) error {
		return api.Errorf(api.CodeBadSignature, "the broker answers with parts %s", what).Fix("nothing was signed; ask the broker's operator")
	}
	if len(parts) < 2 || len(parts) > int(r.Split) {
		return wrong("in another number")
	}
	var sum market.Amounts
	on := map[string]bool{}
	for i, p := range parts {
		t := p.Payload
		if p.ID != ids[i] || slices.Index(ids, p.ID) != i || !slices.Equal(t.Group, ids) {
			return wrong("of something else")
		}
		if t.State.Counts() && on[t.Provider] {
			return wrong("on one provider")
		}
		on[t.Provider] = true
		size, err := market.Need("resources", t.Resources)
		if err != nil {
			return err
		}
		sum = sum.Plus(size)
	}
	if asked, err := market.Need("resources", r.Resources); err != nil || !sum.Equal(asked) {
		return wrong("that are not, together, what was asked")
	}
	return nil
}

// lacks says whether the Ledger does not know all parts of a request that is split, or some are not signed that are to be.
func lacks(parts []*market.Reservation, w Wish) bool {
	signed := func(r *market.Reservation) bool { return r.Assignment != "" }
	switch {
	case len(parts) == 0 || len(parts[0].Group) == 0:
		return false
	case !slices.ContainsFunc(parts, signed):
		return len(parts) < len(parts[0].Group) || !w.Request.Confirm
	default: // what is over is forgotten after a while
		return slices.ContainsFunc(parts, unconfirmed) && !w.Request.Confirm
	}
}

// broken says whether a part of a request is over that was never bound: then none of them is to be.
func broken(parts []*market.Reservation) bool {
	return slices.ContainsFunc(parts, func(r *market.Reservation) bool { return len(r.Group) > 0 && r.State.Over() && r.Acceptance == "" })
}

// unchanged says that the parts of a request that is split do not become what a wish says now; nil if they are.
func unchanged(parts []*market.Reservation, w Wish) error {
	is := whole(parts)
	if want, err := wanted(w, is); len(is.Group) == 0 || err != nil || same(want, is.AsIs()) {
		return err
	}
	return api.Invalid("resources", "a split request cannot change").Fix("make another request for more, or delete this one and make a new one")
}

// whole is the picture of the parts of a request as one: it is as far as the part that is least far, of those that are not over.
func whole(parts []*market.Reservation) *market.Reservation {
	if len(parts) < 2 {
		return parts[0]
	}
	far := func(r *market.Reservation) int {
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
	least := slices.MinFunc(parts, func(a, b *market.Reservation) int { return far(a) - far(b) })
	picture := *least
	picture.ID = parts[0].Group[0]
	var providers []string
	picture.Size = nil
	for _, r := range parts {
		if r.Provider != "" && (!r.State.Over() || least.State.Over()) {
			providers = append(providers, r.Provider)
		}
		picture.Size = picture.Size.Plus(r.Size)
	}
	picture.Provider = strings.Join(providers, ",")
	return &picture
}

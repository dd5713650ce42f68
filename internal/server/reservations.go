package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

type ReservationPath struct {
	ID string `path:"id" maxLength:"63" doc:"reservation ID"`
}

// Conditional is a call that may require a revision of the reservation.
type Conditional struct {
	ReservationPath
	IfMatch string `header:"If-Match" maxLength:"64" doc:"the ETag that the reservation must still have"`
}

// guard makes a command conditional on the revision, if the caller gave one.
func (c Conditional) guard(command market.Command) (market.Command, error) {
	if c.IfMatch == "" || c.IfMatch == "*" {
		return command, nil
	}
	revision, err := strconv.ParseUint(strings.Trim(c.IfMatch, `"`), 10, 64)
	if err != nil {
		return nil, api.Invalid("If-Match", "%.80q is not an ETag of a reservation", c.IfMatch).
			Fix("send the ETag of the last answer")
	}
	return market.IfRevision{ID: c.ID, Revision: revision, Command: command}, nil
}

func (s *Server) reservationRoutes() {
	huma.Register(s.api, operation("evaluate", http.MethodPost,
		"/evaluations", "Decide without a reservation"), s.evaluate)
	huma.Register(s.api, operation("create-reservation", http.MethodPost,
		"/reservations", "Reserve: hold capacity for a request", created), s.createReservation)
	huma.Register(s.api, operation("list-reservations", http.MethodGet,
		"/reservations", "List the reservations with the caller as consumer or provider"), s.listReservations)
	huma.Register(s.api, operation("get-reservation", http.MethodGet, "/reservations/{id}", "Read a reservation"),
		s.getReservation)
	huma.Register(s.api, operation("confirm-reservation", http.MethodPost,
		"/reservations/{id}/confirm", "Send the consumer's signed assignment"), s.confirm)
	huma.Register(s.api, operation("accept-reservation", http.MethodPost,
		"/reservations/{id}/accept", "Send the provider's signed acceptance"), s.accept)
	huma.Register(s.api, operation("refuse-reservation", http.MethodPost,
		"/reservations/{id}/refuse", "Refuse a hold, as the provider or as the consumer before it signs",
		s.allowLargeBody), s.refuse)
	huma.Register(s.api, operation("adopt-reservation", http.MethodPost, "/reservations/{id}/adopt",
		"Send what both parties signed of a reservation that this broker does not know", s.allowLargeBody), s.adopt)
	huma.Register(s.api, operation("release-reservation", http.MethodPost, "/reservations/{id}/release",
		"Send a party's signed end, or the seller's signed notice that it takes a contract back"), s.release)
	huma.Register(s.api, operation("report-progress", http.MethodPost,
		"/reservations/{id}/progress", "Active (the consumer) or Released (the provider)"), s.progress)
}

// answer returns the reservation of an outcome, as the caller may see it.
func (s *Server) answer(ctx context.Context, out market.Outcome, err error) (*tagged[api.Reservation], error) {
	if err != nil {
		return nil, wrap(err)
	}
	e := s.reservation(out.Reservation, out.Decision, CallerOf(ctx).Name, s.lineage)
	if out.Reservation.State == api.Pending && e.Payload.Waiting != nil {
		if err := s.Exchange.Read(ctx,
			func(m *market.State) { e.Payload.Waiting.Position = m.Position(out.Reservation) }); err != nil {
			return nil, wrap(err)
		}
	}
	return &tagged[api.Reservation]{ETag: etag(e.Revision), Body: e}, nil
}

func (s *Server) listReservations(ctx context.Context, in *struct {
	Page
	Role  string    `query:"role" enum:"consumer,provider" doc:"only reservations in which the caller has this role"`
	State api.State `query:"state" enum:"Pending,Held,Reserved,Active,Releasing,Released,Rejected,Failed,Expired" doc:"only reservations in this state"`
}) (*body[page[api.Reservation]], error) {
	c := CallerOf(ctx)
	if c.Role != tlsid.RoleOperator {
		if _, err := s.member(ctx); err != nil {
			return nil, err
		}
	}
	var records []*market.Reservation
	positions := map[string]int{}
	err := s.Exchange.Read(ctx, func(m *market.State) {
		if c.Role == tlsid.RoleOperator {
			records = m.All()
		} else {
			records = append(m.Of(c.Name, 0), m.Rejected(c.Name)...)
		}
		for _, r := range records {
			if r.State == api.Pending {
				positions[r.ID] = m.Position(r)
			}
		}
	})
	if err != nil {
		return nil, wrap(err)
	}
	s.limits.chargeWork(c, len(records))
	var items []api.Envelope[api.Reservation]
	for _, r := range records {
		if in.State != "" && r.State != in.State ||
			in.Role == "consumer" && r.Consumer != c.Name || in.Role == "provider" && r.Provider != c.Name {
			continue
		}
		e := s.reservation(r, nil, c.Name, s.lineage)
		if e.Payload.Waiting != nil {
			e.Payload.Waiting.Position = positions[r.ID]
		}
		items = append(items, e)
	}
	return &body[page[api.Reservation]]{cut(items, in.Page)}, nil
}

func (s *Server) getReservation(ctx context.Context, in *ReservationPath) (*tagged[api.Reservation], error) {
	c := CallerOf(ctx)
	if c.Role != tlsid.RoleOperator {
		if _, err := s.member(ctx); err != nil {
			return nil, err
		}
	}
	r, decision, err := s.find(ctx, in.ID, c)
	return s.answer(ctx, market.Outcome{Reservation: r, Decision: decision}, err)
}

// find returns a reservation of the caller, as consumer or provider; an operator finds all.
func (s *Server) find(ctx context.Context, id string, c Caller) (r *market.Reservation,
	decision *api.Decision, err error) {
	var why market.Why
	err = s.Exchange.Read(ctx, func(m *market.State) { r, why = m.Reservation(id), m.Why(id) })
	if err == nil && (r == nil || c.Role != tlsid.RoleOperator && !r.Concerns(c.Name)) {
		err = api.Errorf(api.CodeNotFound, "your cluster has no reservation %.80q", id)
	}
	return r, why.Decision(), err
}

type signedCall struct {
	Conditional
	Body api.SignedDocument
}

// act handles a call by a party to a reservation: it finds both, and carries out the command that command
// returns for them.
func (s *Server) act(ctx context.Context, in Conditional,
	command func(*market.Reservation, *market.Listing) (market.Command, error)) (*tagged[api.Reservation], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	r, decision, err := s.find(ctx, in.ID, CallerOf(ctx))
	if err != nil {
		return nil, wrap(err)
	}
	do, err := command(r, l)
	if err != nil {
		return nil, wrap(err)
	}
	if do, err = in.guard(do); err != nil {
		return nil, err
	}
	out, err := s.Exchange.Do(ctx, do)
	out.Decision = decision
	return s.answer(ctx, out, err)
}

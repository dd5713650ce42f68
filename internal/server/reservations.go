package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/trust"
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
		return nil, api.Invalid("If-Match", "%.80q is not an ETag of a reservation", c.IfMatch).Fix("send the ETag of the last answer")
	}
	return market.IfRevision{ID: c.ID, Revision: revision, Command: command}, nil
}

func (s *Server) reservationRoutes() {
	huma.Register(s.api, operation("evaluate", http.MethodPost, "/evaluations", "Decide without a reservation"), s.evaluate)
	huma.Register(s.api, operation("create-reservation", http.MethodPost, "/reservations", "Reserve: hold capacity for a request", created), s.createReservation)
	huma.Register(s.api, operation("list-reservations", http.MethodGet, "/reservations", "List the reservations with the caller as consumer or provider"), s.listReservations)
	huma.Register(s.api, operation("get-reservation", http.MethodGet, "/reservations/{id}", "Read a reservation"), s.getReservation)
	huma.Register(s.api, operation("confirm-reservation", http.MethodPost, "/reservations/{id}/confirm", "Send the consumer's signed assignment"), s.confirm)
	huma.Register(s.api, operation("accept-reservation", http.MethodPost, "/reservations/{id}/accept", "Send the provider's signed acceptance"), s.accept)
	huma.Register(s.api, operation("refuse-reservation", http.MethodPost, "/reservations/{id}/refuse", "The provider's no, or the consumer's before it signs", s.large), s.refuse)
	huma.Register(s.api, operation("adopt-reservation", http.MethodPost, "/reservations/{id}/adopt", "What both parties signed of a reservation that this broker does not know", s.large), s.adopt)
	huma.Register(s.api, operation("release-reservation", http.MethodPost, "/reservations/{id}/release", "Send a party's signed end, or the seller's signed notice that it takes a contract back"), s.release)
	huma.Register(s.api, operation("report-progress", http.MethodPost, "/reservations/{id}/progress", "Active (the consumer) or Released (the provider)"), s.progress)
}

func (s *Server) evaluate(ctx context.Context, in *struct{ Body api.ReservationCreate }) (*body[api.Evaluation], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	ask, _, err := s.ask(l.Cluster, in.Body.Request)
	if err != nil {
		return nil, err
	}
	view, now := s.Exchange.View(), s.Exchange.Now()
	var parts []market.Amounts
	if ask.Request.Split > 1 {
		if parts, _ = s.Engine.Split(view, ask, now); len(parts) > 1 {
			ask.Size, ask.Request.Resources = parts[0], parts[0].Resources()
		}
	}
	e := s.Engine.Evaluate(view, ask, now)
	if len(parts) > 1 {
		e.Decision.Parts = len(parts)
	}
	return &body[api.Evaluation]{e}, nil
}

// ask checks a request and returns its ask; sale is the plan that it buys from, if it is a purchase. It
// rejects a consumer without a card, because no provider could verify its signatures.
func (s *Server) ask(consumer string, r api.Request) (ask match.Ask, sale *api.Sale, err error) {
	if l := s.Exchange.View().Listing(consumer); l == nil || l.Member == nil || l.Member.Card == nil {
		return ask, nil, api.Errorf(api.CodeConflict, "cluster %s has not shown its card yet: nobody could check what it signs", consumer).
			Fix("start its agent, which shows it, or put it to %s/clusters/%s/card; then ask again", api.Prefix, consumer)
	}
	if r.Purchase != nil {
		ask, sale, err = s.Engine.Buy(s.Exchange.View(), consumer, r, s.Exchange.Now())
	} else {
		ask, err = s.Engine.Ask(consumer, r)
	}
	if err != nil {
		return ask, nil, under("request", err)
	}
	if err := market.CheckRequest(&ask.Request); err != nil {
		return ask, nil, err
	}
	if r.Wait != nil && s.Queue == nil {
		return ask, nil, api.Errorf(api.CodeUnavailable, "requests wait at a broker, and this is a connector").At("request.wait").
			Fix("ask again when the broker answers, or ask without waiting")
	}
	ask.Kept = s.Queue.Kept(r.Priority)
	return ask, sale, nil
}

// repeated returns the answer to an earlier identical request that is no longer possible, because an
// offer has changed since.
func (s *Server) repeated(ctx context.Context, consumer, key string, in api.ReservationCreate, cause error) (market.Outcome, error) {
	var r *market.Reservation
	err := s.Exchange.Read(ctx, func(m *market.State) { r = m.ByKey(consumer, key) })
	if err != nil || key == "" || r == nil || r.Digest != digest(&in) {
		return market.Outcome{}, cause
	}
	if r.Request == nil { // a rejected reservation does not keep its request
		again := *r
		again.Request = &in.Request
		r = &again
	}
	return market.Outcome{Reservation: r, Decision: r.Why.Decision()}, nil
}

// placeTries is the number of decisions of one request, if others take the capacity first.
const placeTries = 4

func (s *Server) createReservation(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" maxLength:"128" doc:"a repeat with the same key and body changes nothing and gets the same answer"`
	Body api.ReservationCreate
}) (*tagged[api.Reservation], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.Reserve(ctx, l.Cluster, in.Key, in.Body)
	return s.answer(ctx, out, err)
}

// Reserve decides a consumer's request and holds capacity for it. A repeat with the same key and body
// returns the first reservation. Errors: those of [market.Hold], and Invalid under request.
func (s *Server) Reserve(ctx context.Context, consumer, key string, in api.ReservationCreate) (out market.Outcome, err error) {
	ask, sale, err := s.ask(consumer, in.Request)
	if err != nil {
		return s.repeated(ctx, consumer, key, in, err)
	}
	request := ask.Request // keep only the request, not the ask
	hold := &market.Hold{
		ID: newID("r-"), Key: key, Digest: digest(&in), Consumer: consumer,
		Request: &request, Pool: ask.Request.Pool, Size: ask.Size, Duration: ask.Duration, Sale: sale, Caps: s.Caps,
	}
	if ask.Request.Split > 1 {
		if out, err := s.split(ctx, hold, ask); out.Reservation != nil || err != nil {
			return out, err
		}
	}
	for try := 1; ; try++ {
		ranking := s.Engine.Decide(s.Exchange.View(), ask, s.Exchange.Now())
		decision := ranking.Decision
		hold.Candidates, hold.Plans, hold.Decision = ranking.Providers, ranking.Plans, &decision
		hold.Premature = len(ranking.Providers) == 0 && s.premature()
		if out, err = s.Exchange.Do(ctx, hold); api.CodeOf(err) != api.CodeInsufficient || try == placeTries {
			break
		}
	}
	if api.CodeOf(err) == api.CodeInsufficient && ask.Request.Wait != nil { // others were faster each time: it waits
		hold.Candidates = nil
		out, err = s.Exchange.Do(ctx, hold)
	}
	return out, err
}

// split holds the parts of a request on several providers if no single one can serve it. It returns no
// outcome and no error if several cannot, either.
func (s *Server) split(ctx context.Context, whole *market.Hold, ask match.Ask) (out market.Outcome, err error) {
	for try := 1; ; try++ {
		parts, ranking := s.Engine.Split(s.Exchange.View(), ask, s.Exchange.Now())
		if len(parts) < 2 {
			return market.Outcome{}, nil
		}
		var together market.HoldTogether
		for i, size := range parts {
			part := *whole
			part.Size, part.Candidates, part.Decision = size, ranking.Providers, &ranking.Decision
			if i > 0 {
				part.ID, part.Key = newID("r-"), ""
			}
			together.Parts = append(together.Parts, &part)
		}
		if out, err = s.Exchange.Do(ctx, together); api.CodeOf(err) != api.CodeInsufficient || try == placeTries {
			return out, err
		}
	}
}

// premature reports whether a final rejection could be wrong, because a cluster that could serve the
// request may not have come back since this broker started.
func (s *Server) premature() bool {
	now := s.Exchange.Now()
	if now.Go().Sub(s.started.Go()) >= market.Lease {
		return false
	}
	v := s.Exchange.View()
	for slot := range v.Len() {
		if l := v.At(slot); l.Active() && l.Member.Card != nil && l.Member.Joined < s.started && !l.Fresh(now) {
			return true
		}
	}
	return false
}

// digest identifies the content of a request.
func digest(in *api.ReservationCreate) string {
	data, _ := json.Marshal(in) // our own payloads always encode
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// answer returns the reservation of an outcome, as the caller may see it.
func (s *Server) answer(ctx context.Context, out market.Outcome, err error) (*tagged[api.Reservation], error) {
	if err != nil {
		return nil, wrap(err)
	}
	e := s.reservation(out.Reservation, out.Decision, CallerOf(ctx).Name, s.lineage)
	if out.Reservation.State == api.Pending && e.Payload.Waiting != nil {
		if err := s.Exchange.Read(ctx, func(m *market.State) { e.Payload.Waiting.Position = m.Position(out.Reservation) }); err != nil {
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

// find returns a reservation of which the caller is a party; an operator finds all.
func (s *Server) find(ctx context.Context, id string, c Caller) (r *market.Reservation, decision *api.Decision, err error) {
	var why market.Why
	err = s.Exchange.Read(ctx, func(m *market.State) { r, why = m.Reservation(id), m.Why(id) })
	if err == nil && (r == nil || c.Role != tlsid.RoleOperator && !r.Concerns(c.Name)) {
		err = api.Errorf(api.CodeNotFound, "no reservation %.80q of yours", id)
	}
	return r, why.Decision(), err
}

type signedCall struct {
	Conditional
	Body api.SignedDocument
}

// act handles a call by a party to a reservation: it finds both, and carries out the command that command
// returns for them.
func (s *Server) act(ctx context.Context, in Conditional, command func(*market.Reservation, *market.Listing) (market.Command, error)) (*tagged[api.Reservation], error) {
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

func (s *Server) confirm(ctx context.Context, in *signedCall) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		if asked, generation := r.Asked(); asked != "" && asked == in.Body.Document { // verified before: agents repeat what may not have arrived
			if r.Bound() {
				return market.Reassign{ID: in.ID, Consumer: l.Cluster, Generation: generation, Document: asked}, nil
			}
			return market.Confirm{ID: in.ID, Consumer: l.Cluster, Generation: generation, Document: asked}, nil
		}
		var a api.Assignment
		if err := s.verify(in.Body.Document, api.DocumentAssignment, l.Member.Key, &a); err != nil {
			return nil, err
		}
		provider := s.Exchange.View().Listing(r.Provider)
		if provider == nil || provider.Member == nil || a.Generation != r.Generation && !r.Bound() {
			return nil, api.Errorf(api.CodeConflict, "reservation %s is %s at generation %d, the assignment is of %d", r.ID, r.State, r.Generation, a.Generation).
				At("document.generation").Fix("read the reservation again and sign that")
		}
		held := market.AssignmentOf(r, fingerprint(l), fingerprint(provider))
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
		if r.Bound() {
			return s.reassign(in, l.Cluster, r, a)
		}
		return market.Confirm{ID: in.ID, Consumer: l.Cluster, Generation: a.Generation, Document: in.Body.Document, Caps: s.Caps}, nil
	})
}

// reassign returns the command for an assignment whose signature and parties are verified.
func (s *Server) reassign(in *signedCall, caller string, r *market.Reservation, a api.Assignment) (market.Command, error) {
	size, err := market.ParseRequest("document.resources", a.Resources)
	if err != nil {
		return nil, err
	}
	if len(size) != len(a.Resources) {
		return nil, api.Invalid("document.resources", "it names resources with the amount 0").Fix("leave them out")
	}
	units := int64(0)
	if a.Sale != nil && r.Offer != nil {
		if off := a.Begins.Sub(s.Exchange.Now().Go()).Abs(); off > market.DecideTime {
			return nil, api.Invalid("document.begins", "it is %s away", off.Round(time.Second)).Fix("sign when it begins: now")
		}
		if units = a.Sale.Units; r.Offer.Covers(*a.Sale, r.Pool, size) != nil {
			return nil, api.Invalid("document.resources", "they are not those of %d units of plan %s", units, a.Sale.Plan).Fix("sign what the plan sells")
		}
	}
	if left := a.Until.Sub(s.Exchange.Now().Go()); left > match.LongestDuration {
		return nil, api.Invalid("document.until", "it ends in %s", left.Round(time.Hour)).Fix("reserve for %s at most", match.LongestDuration)
	}
	return market.Reassign{ID: in.ID, Consumer: caller, Generation: a.Generation, Size: size, Units: units, From: market.At(a.Begins.Time), Until: market.At(a.Until.Time), Document: in.Body.Document, Caps: s.Caps}, nil
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
		if err := s.verify(in.Body.Document, api.DocumentAcceptance, l.Member.Key, &a); err != nil {
			return nil, err
		}
		assignment, generation := r.Asked()
		if a.Protocol > api.Protocol {
			return nil, api.OtherProtocol(api.CodeInvalid, "the acceptance", a.Protocol).At("document.protocol")
		}
		if a.Protocol < 1 || a.Reservation != in.ID || a.Generation != generation ||
			a.Consumer != r.Consumer || a.Provider != r.Provider || a.Provider != l.Cluster || a.Assignment != clusterkey.Digest(assignment).String() {
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
			if err := s.Observe(ctx, l.Cluster, *in.Body.Advertisement); err != nil && api.CodeOf(err) != api.CodeStaleAdvertisement {
				return nil, under("advertisement", err)
			}
		}
		return market.Refuse{ID: in.ID, By: l.Cluster, Generation: in.Body.Generation, Reason: in.Body.Reason, Message: trust.Text(in.Body.Message)}, nil
	})
}

func (s *Server) release(ctx context.Context, in *signedCall) (*tagged[api.Reservation], error) {
	return s.act(ctx, in.Conditional, func(r *market.Reservation, l *market.Listing) (market.Command, error) {
		if header, err := clusterkey.Peek(in.Body.Document); err == nil && header.Kind == api.DocumentReclaim {
			return s.reclaim(in, r, l)
		}
		var e api.End
		if err := s.verify(in.Body.Document, api.DocumentEnd, l.Member.Key, &e); err != nil {
			return nil, err
		}
		if e.Reservation != in.ID || e.By != l.Cluster {
			return nil, api.Invalid("document", "it ends reservation %.80q by %.80q", e.Reservation, e.By).Fix("sign the end of %s", in.ID)
		}
		if err := checkReason("document.reason", e.Reason); err != nil {
			return nil, err
		}
		names := trust.Names(e.Assignment, r) || r.Assignment == "" || r.State.Over() || r.End != ""
		if e.Protocol > api.Protocol || !names && e.Assignment == "" && e.Protocol < api.Protocol {
			return nil, api.OtherProtocol(api.CodeInvalid, "the end", e.Protocol).At("document.protocol")
		}
		if !names {
			return nil, api.Errorf(api.CodeConflict, "the end is of assignment %.60q, which is not that of reservation %s", e.Assignment, r.ID).
				At("document.assignment").Fix("read the reservation again and end that")
		}
		return market.Release{ID: in.ID, By: l.Cluster, Generation: e.Generation, Reason: e.Reason, Document: in.Body.Document,
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

package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

func (s *Server) evaluate(ctx context.Context,
	in *struct{ Body api.EvaluationCreate }) (*body[api.Evaluation], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	ask, _, err := s.ask(l.Cluster, in.Body.Request)
	if err != nil {
		return nil, err
	}
	if in.Body.Fits > 0 { // the caller learns at once when asking again may help
		cluster := l.Cluster // not l, which has the whole advertisement
		s.Queue.OnGrown(cluster, func() { s.watches.wake(cluster) })
	}
	view, now := s.Exchange.View(), s.Exchange.Now()
	if in.Body.Fits > 0 {
		pods := make([]amounts.List, len(in.Body.Pods))
		for i, pod := range in.Body.Pods {
			if pods[i], err = amounts.ParseRequest(fmt.Sprintf("pods[%d]", i), pod); err != nil {
				return nil, wrap(err)
			}
		}
		e := api.Evaluation{Decision: s.Engine.Decide(view, ask, now).Decision}
		e.Fits = s.Engine.Fits(view, ask, pods, int(in.Body.Fits), now)
		return &body[api.Evaluation]{e}, nil
	}
	if ask.Request.Split <= 1 {
		return &body[api.Evaluation]{s.Engine.Evaluate(view, ask, now)}, nil
	}
	_, ranking := s.Engine.Split(view, ask, now)
	if part := ranking.Part; part != nil {
		ask.Size, ask.Request.Resources = part, part.Resources()
	}
	e := s.Engine.Evaluate(view, ask, now)
	e.Decision = ranking.Decision
	return &body[api.Evaluation]{e}, nil
}

// ask checks a request and returns its ask; sale is the plan that it buys from, if it is a purchase. It
// rejects a consumer without a card, because no provider could verify its signatures.
func (s *Server) ask(consumer string, r api.Request) (ask match.Ask, sale *api.Sale, err error) {
	if l := s.Exchange.View().Listing(consumer); l == nil || l.Member == nil || l.Member.Card == nil {
		return ask, nil, api.Errorf(api.CodeConflict,
			"cluster %s has not shown its card yet: nobody could check what it signs", consumer).
			Fix("start its agent, which shows it, or put it to %s/clusters/%s/card; then ask again", api.Prefix, consumer)
	}
	if r.Purchase != nil {
		ask, sale, err = s.Engine.Buy(s.Exchange.View(), consumer, r, s.Exchange.Now())
	} else {
		ask, err = s.Engine.Ask(consumer, r)
	}
	if r.Purchase != nil && api.CodeOf(err) == api.CodeNotFound && s.premature() {
		return ask, nil, market.JustStarted() // an offer is shown once its seller has advertised
	}
	if err != nil {
		return ask, nil, under("request", err)
	}
	if err := market.CheckRequest(&ask.Request); err != nil {
		return ask, nil, err
	}
	if r.Wait != nil && s.Queue == nil {
		return ask, nil, api.Errorf(api.CodeUnavailable,
			"requests wait at a broker, and this is a connector").At("request.wait").
			Fix("ask again when the broker answers, or ask without waiting")
	}
	ask.Kept = s.Queue.Kept(r.Priority)
	return ask, sale, nil
}

// repeated returns the answer to an earlier identical request that is no longer possible, because an
// offer has changed since.
func (s *Server) repeated(ctx context.Context, consumer, key string,
	in api.ReservationCreate, cause error) (market.Outcome, error) {
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
func (s *Server) Reserve(ctx context.Context, consumer, key string,
	in api.ReservationCreate) (out market.Outcome, err error) {
	ask, sale, err := s.ask(consumer, in.Request)
	if err != nil {
		return s.repeated(ctx, consumer, key, in, err)
	}
	request := ask.Request // keep only the request, not the ask
	hold := &market.Hold{
		ID: newID("r-"), Key: key, Digest: digest(&in), Consumer: consumer,
		Request: &request, Pool: ask.Request.Pool, Size: ask.Size, Duration: ask.Duration, Sale: sale, Caps: s.Caps,
	}
	var ofPart *api.Decision
	if ask.Request.Split > 1 {
		if out, ofPart, err = s.split(ctx, hold, ask); out.Reservation != nil || err != nil {
			return out, err
		}
	}
	for try := 1; ; try++ {
		ranking := s.Engine.Decide(s.Exchange.View(), ask, s.Exchange.Now())
		decision := ranking.Decision
		hold.Candidates, hold.Plans, hold.Decision = ranking.Providers, ranking.Plans, &decision
		if ofPart != nil && len(ranking.Providers) == 0 {
			hold.Decision = ofPart
		}
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

// split holds the parts of a request on several providers if no single one can serve it. If several
// cannot, either, it returns no outcome and no error, but the decision about the smallest part; nil if no part was tried.
func (s *Server) split(ctx context.Context, whole *market.Hold, ask match.Ask) (out market.Outcome,
	ofPart *api.Decision, err error) {
	for try := 1; ; try++ {
		parts, ranking := s.Engine.Split(s.Exchange.View(), ask, s.Exchange.Now())
		if len(parts) < 2 {
			if ranking.Part != nil {
				ofPart = &ranking.Decision
			}
			return market.Outcome{}, ofPart, nil
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
			return out, nil, err
		}
	}
}

// premature reports whether a final rejection could be wrong, because a cluster that could serve the
// request may not have come back since this broker started.
func (s *Server) premature() bool {
	v := s.Exchange.View()
	for slot := range v.Len() {
		if s.mayComeBack(v.At(slot)) {
			return true
		}
	}
	return false
}

// mayComeBack reports whether a cluster has not advertised since this broker started, less than one lease ago.
func (s *Server) mayComeBack(l *market.Listing) bool {
	now := s.Exchange.Now()
	return now.Go().Sub(s.started.Go()) < market.Lease &&
		l.Active() && l.Member.Card != nil && l.Member.Joined < s.started && !l.Fresh(now)
}

// digest identifies the content of a request.
func digest(in *api.ReservationCreate) string {
	data, _ := json.Marshal(in) // our own payloads always encode
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

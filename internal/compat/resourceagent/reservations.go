package resourceagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/compat"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

// asked reads a request. Errors: Invalid with the field.
func asked(r *http.Request) (api.Request, error) {
	var in requestDTO
	if err := compat.Decode(r, &in); err != nil {
		return api.Request{}, err
	}
	return in.request()
}

// request returns a request in Bourse's words. Errors: Invalid with the field.
func (in *requestDTO) request() (api.Request, error) {
	resources, err := in.RequestedResources.amounts("requestedResources", false)
	if err != nil {
		return api.Request{}, err
	}
	out := api.Request{Resources: resources, Target: in.TargetClusterID}
	if in.Duration != "" {
		d, err := time.ParseDuration(in.Duration)
		if err != nil {
			return api.Request{}, api.Invalid("duration", "%.40q is not a duration", in.Duration).Fix("write it as 90m or 24h")
		}
		out.Duration = &metav1.Duration{Duration: d}
	}
	return out, nil
}

// maxCandidates is how many an evaluation names.
const maxCandidates = 10

// ofRoom are the filters that eliminate a cluster because of what reservations have of it, the caller's own among them.
var ofRoom = []string{"policy", "fits", "shape", "kept"}

// evaluate says who could serve a request, best first. It changes nothing. The cluster that serves the caller now comes
// first while it can serve: an agent moves to the first one, and its own reservation makes the cluster that it leaves
// look worse than the others.
func (a *agents) evaluate(r *http.Request) (compat.Answer, error) {
	l, err := compat.Member(a.Server, r)
	if err != nil {
		return compat.Answer{}, err
	}
	var in evaluationDTO
	if err := compat.Decode(r, &in); err != nil {
		return compat.Answer{}, err
	}
	request, err := in.request()
	if err != nil {
		return compat.Answer{}, err
	}
	if in.MeasuredLatencyMs < 0 {
		return compat.Answer{}, api.Invalid("measuredLatencyMs", "it is negative").Fix("leave it out if nothing was measured")
	}
	ask, err := a.Server.Engine.Ask(l.Cluster, request)
	if err != nil {
		return compat.Answer{}, under(err)
	}
	caller, err := compat.Cluster(r)
	if err != nil {
		return compat.Answer{}, err
	}
	covers, err := a.covers(r.Context(), caller, l.Cluster, in.CurrentProviderID, ask.Size)
	if err != nil {
		return compat.Answer{}, under(err)
	}
	evaluation := a.Server.Engine.Evaluate(a.Server.Exchange.View(), ask, a.Server.Exchange.Now())
	var candidates []candidateDTO
	for _, verdict := range evaluation.Clusters {
		c := candidateDTO{verdict.Cluster, fmt.Sprintf("score %.2f of 1", float64(verdict.Score)/1e6)}
		switch qualifies := verdict.Filter == ""; {
		case verdict.Cluster == in.CurrentProviderID && (qualifies || covers && slices.Contains(ofRoom, verdict.Filter)):
			if c.Information += ", serves you now"; !qualifies {
				c.Information = "serves you now, with what you have reserved there"
			}
			if in.MeasuredLatencyMs > 0 {
				c.Information += fmt.Sprintf(", %.4g ms away as you measured", in.MeasuredLatencyMs)
			}
			candidates = slices.Insert(candidates, 0, c)
		case qualifies:
			candidates = append(candidates, c)
		}
	}
	if len(candidates) == 0 {
		return compat.Answer{}, nobody(evaluation.Decision)
	}
	return compat.Answer{Status: http.StatusOK,
		Body: candidatesDTO{candidates[:min(len(candidates), maxCandidates)]}}, nil
}

// covers reports whether a consumer has a reservation at a provider that is bound and as large as a size. The caller
// pays for the records that the market searches.
func (a *agents) covers(
	ctx context.Context, caller server.Caller, consumer, provider string, size amounts.List,
) (covers bool, err error) {
	if provider == "" {
		return false, nil
	}
	searched := 0
	err = a.Server.Exchange.Read(ctx, func(s *market.State) {
		live := s.Live(consumer)
		searched = len(live)
		covers = slices.ContainsFunc(live, func(r *market.Reservation) bool {
			return r.Consumer == consumer && r.Provider == provider && r.Bound() && r.Size.Fits(size)
		})
	})
	a.Server.ChargeSearched(caller, searched)
	return covers, err
}

// nobody is the error of a request that no cluster can serve.
func nobody(d api.Decision) error {
	why := fmt.Sprintf("none of %d clusters can serve the request", d.Considered)
	if miss := d.NearestMiss; miss != nil {
		why += fmt.Sprintf("; the nearest, %s, %s", miss.Cluster, miss.Message)
	}
	e := api.Errorf(api.CodeNoCandidate, "%s", why).Fix("ask for less, or later")
	e.Decision = &d
	return e
}

// reserve makes a reservation, and waits for a while for the provider's answer.
func (a *agents) reserve(r *http.Request) (compat.Answer, error) {
	l, err := a.legacy(r)
	if err != nil {
		return compat.Answer{}, err
	}
	request, err := asked(r)
	if err != nil {
		return compat.Answer{}, err
	}
	if request.Target != "" {
		target := a.Server.Exchange.View().Listing(request.Target)
		if target == nil || target.Member == nil || !server.Sees(l, target) || !target.Fresh(a.Server.Exchange.Now()) {
			return compat.Answer{}, api.Errorf(api.CodeNotFound, "no cluster %.80q that shows itself to you now",
				request.Target).At("targetClusterID")
		}
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return compat.Answer{}, api.Invalid("Idempotency-Key", "it has %d characters", len(key)).Fix("use at most %d", maxKey)
	}
	out, err := a.Server.Reserve(r.Context(), l.Cluster, key, api.ReservationCreate{Request: request})
	if err != nil {
		return compat.Answer{}, under(within(err))
	}
	if out.Reservation.State == api.Rejected {
		return compat.Answer{}, nobody(*out.Decision)
	}
	outcome, err := a.awaitOutcome(r.Context(), l, out.Reservation)
	switch {
	case key == "" && (err != nil || !outcome.Bound() && !outcome.State.Over()):
		// The successor's agent takes every success for a reservation, and asks only once.
		if err := a.deputy.cancel(context.WithoutCancel(r.Context()), l, out.Reservation.ID); err != nil {
			return compat.Answer{}, err
		}
		return compat.Answer{}, api.Errorf(api.CodeConflict,
			"the provider did not accept within %s: reservation %s was cancelled", a.Wait, out.Reservation.ID).
			Fix("ask again, or send an Idempotency-Key: then it stays Pending (202)")
	case err != nil:
		return compat.Answer{}, err
	case outcome.State.Over():
		return compat.Answer{}, api.Errorf(api.CodeNoCandidate, "reservation %s is %s: %s %s",
			outcome.ID, outcome.State, outcome.Reason, outcome.Message).Fix("ask again")
	case !outcome.Bound():
		return compat.Answer{Status: http.StatusAccepted, Body: shown(outcome)}, nil
	}
	return compat.Answer{Status: http.StatusCreated, Body: shown(outcome)}, nil
}

const maxKey = 128

// within takes the envelope out of a field's path.
func within(err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok && strings.HasPrefix(e.Field, "request.") {
		inner := *e
		return inner.At(strings.TrimPrefix(e.Field, "request."))
	}
	return err
}

// awaitOutcome signs a reservation each time that it is held, until its provider has answered or the wait is over.
func (a *agents) awaitOutcome(ctx context.Context,
	l *market.Listing, r *market.Reservation) (*market.Reservation, error) {
	watch, err := a.Server.Exchange.Watch(ctx, l.Cluster, "", 0)
	if err != nil {
		return nil, err
	}
	defer watch.Close()
	patience, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	for r.State == api.Held {
		if err := a.deputy.sign(ctx, l); err != nil {
			return nil, err
		}
		if _, _, err := watch.Next(patience); err != nil {
			break // it continues without us: the next call reads the result
		}
		if r, err = a.find(ctx, r.ID, l.Cluster); err != nil {
			return nil, err
		}
	}
	return a.find(ctx, r.ID, l.Cluster)
}

// find returns a reservation of a cluster, as consumer or provider. Errors: NotFound.
func (a *agents) find(ctx context.Context, id, cluster string) (r *market.Reservation, err error) {
	err = a.Server.Exchange.Read(ctx, func(s *market.State) { r = s.Reservation(id) })
	if err == nil && (r == nil || !r.Concerns(cluster)) {
		err = api.Errorf(api.CodeNotFound, "your cluster has no reservation %.80q", id)
	}
	return r, err
}

// reservation shows one of the caller's.
func (a *agents) reservation(r *http.Request) (compat.Answer, error) {
	l, err := compat.Member(a.Server, r)
	if err != nil {
		return compat.Answer{}, err
	}
	if err := a.signed(r.Context(), l); err != nil {
		return compat.Answer{}, err
	}
	found, err := a.find(r.Context(), r.PathValue("id"), l.Cluster)
	if err != nil {
		return compat.Answer{}, err
	}
	return compat.Answer{Status: http.StatusOK, Body: shown(found)}, nil
}

// signed signs the reservations that are held again since a legacy consumer last called.
func (a *agents) signed(ctx context.Context, l *market.Listing) error {
	if !l.Member.Legacy {
		return nil
	}
	return a.deputy.sign(ctx, l)
}

// reservations lists the caller's, by its role: what a provider fetches so, it has accepted.
func (a *agents) reservations(r *http.Request) (compat.Answer, error) {
	l, err := compat.Member(a.Server, r)
	if err != nil {
		return compat.Answer{}, err
	}
	query := r.URL.Query()
	if id := query.Get("clusterID"); id != "" && id != l.Cluster {
		return compat.Answer{}, api.Errorf(api.CodeForbidden, "cluster %s may not ask for what is %.80q's",
			l.Cluster, id).At("clusterID").Fix("ask as %s", l.Cluster)
	}
	role := query.Get("role")
	if role != "" && role != "requester" && role != "provider" {
		return compat.Answer{}, api.Invalid("role", "%.40q is not a role", role).Fix("use requester or provider")
	}
	out := reservationsDTO{Reservations: []reservationDTO{}}
	if role != "provider" {
		if err := a.signed(r.Context(), l); err != nil {
			return compat.Answer{}, err
		}
		all, err := a.deputy.mine(r.Context(), l.Cluster)
		if err != nil {
			return compat.Answer{}, err
		}
		for _, record := range all {
			if record.Consumer == l.Cluster && record.State.Counts() {
				out.Reservations = append(out.Reservations, shown(record))
			}
		}
	}
	if role != "requester" {
		instructions, err := a.fetched(r.Context(), l)
		if err != nil {
			return compat.Answer{}, err
		}
		out.Reservations = append(out.Reservations, instructions...)
	}
	return compat.Answer{Status: http.StatusOK, Body: out}, nil
}

// instructions are what the caller is to carry out as a provider.
func (a *agents) instructions(r *http.Request) (compat.Answer, error) {
	l, err := compat.Member(a.Server, r)
	if err != nil {
		return compat.Answer{}, err
	}
	out, err := a.fetched(r.Context(), l)
	if err != nil {
		return compat.Answer{}, err
	}
	return compat.Answer{Status: http.StatusOK, Body: out}, nil
}

// fetched are a provider's instructions: to fetch them accepts them only in the name of a legacy member.
func (a *agents) fetched(ctx context.Context, l *market.Listing) ([]reservationDTO, error) {
	if l.Member.Legacy {
		return a.instructed(ctx, l)
	}
	all, err := a.deputy.mine(ctx, l.Cluster)
	out := []reservationDTO{}
	for _, r := range all {
		if r.Provider == l.Cluster && r.Bound() {
			out = append(out, shown(r))
		}
	}
	return out, err
}

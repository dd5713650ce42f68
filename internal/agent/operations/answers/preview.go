package answers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

const (
	// maxExcluded is how many providers a request may exclude.
	maxExcluded = 64
	// evaluatedAtMost is how often one evaluation asks the broker. Each time it may dial the chosen provider.
	evaluatedAtMost = 16
)

// Preview returns what a broker would decide about a ResourceRequest, and why this cluster would pass over
// providers. It asks again without these, as the request would. Errors: Invalid, Unavailable; why the only provider
// that the request may have is passed over.
func (c *Cluster) Preview(ctx context.Context, broker transport.Broker, q api.DryRun) (api.Evaluation, error) {
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Request: q.Request, Offload: q.Offload}}
	object.Namespace = cmp.Or(q.Namespace, metav1.NamespaceDefault)
	if err := c.o.Requests.CheckAsk(ctx, q.Request); err != nil {
		return api.Evaluation{}, err
	}
	if err := c.o.Requests.CheckOffload(ctx, object.Namespace, q.Offload); err != nil {
		return api.Evaluation{}, err
	}
	ask, err := q.Request, error(nil)
	if ask.StickTo, err = c.o.Requests.FindStickTo(ctx, object); err != nil {
		return api.Evaluation{}, err
	}
	refused, err := c.o.Requests.FindRefused(ctx, object)
	if err != nil {
		return api.Evaluation{}, err
	}
	for range evaluatedAtMost {
		if err := refused[onlyProvider(ask)]; err != nil {
			return api.Evaluation{}, err
		}
		ask.Exclude = exclude(q.Request.Exclude, refused)
		e, err := broker.Fit(ctx, api.EvaluationCreate{Request: ask, Fitting: q.Fitting})
		if err != nil {
			return e, err
		}
		more, err := c.checkChoice(ctx, broker, object, e.Decision)
		if err != nil || len(more) == 0 {
			return withRefused(e, refused), err
		}
		maps.Copy(refused, more)
	}
	return api.Evaluation{}, api.Errorf(api.CodeUnavailable, "this cluster would pass over %d providers one by one",
		len(refused)).Fix("name another target, or exclude providers")
}

// checkChoice returns why this cluster would pass over the providers of a decision, by provider.
func (c *Cluster) checkChoice(ctx context.Context, broker transport.Broker, object *api.ResourceRequest,
	d api.Decision) (map[string]error, error) {
	chosen := map[string]bool{}
	if d.Chosen != "" {
		chosen[d.Chosen] = true
	}
	if d.Parts > 1 { // each part has another provider
		for _, scored := range d.Top[:min(d.Parts, len(d.Top), max(0, int(object.Spec.Split)))] {
			chosen[scored.Cluster] = true
		}
	}
	refused := map[string]error{}
	for provider := range chosen {
		shown, err := broker.Cluster(ctx, provider)
		if err != nil {
			return nil, err
		}
		if shown.Payload.Card == "" {
			continue
		}
		why, err := c.o.Requests.CheckCard(ctx, object, provider, shown.Payload.Card)
		if err != nil {
			return nil, err
		}
		if why != nil {
			refused[provider] = why
		}
	}
	return refused, nil
}

// PassedOver returns why this cluster passes over some of the providers for each new request, by provider: its agent
// refuses them, or it chose others at its broker.
func (c *Cluster) PassedOver(ctx context.Context, providers []string) (map[string]error, error) {
	why := map[string]error{}
	for _, name := range c.o.Requests.FindDisabled(ctx, providers) {
		if name != c.o.Cluster {
			why[name] = errDisabled
		}
	}
	refused, err := readLedger(ctx, c.o.Requests.FindPassedOver)
	maps.Copy(why, refused)
	return why, err
}

// errDisabled is why a provider serves no request that this cluster did not choose at its broker.
var errDisabled = errors.New("Disabled: this cluster enabled other providers at its broker; to enable one, call " +
	"/api/toggle?id=CLUSTER&enable=true there (docs/migrate.md)")

// onlyProvider returns the only provider that a request may have, empty if it may have others.
func onlyProvider(r api.Request) string {
	if r.Purchase != nil {
		return r.Purchase.Seller
	}
	return r.Target
}

// exclude adds the refused providers to those that a request excludes, as many as it may.
func exclude(excluded []string, refused map[string]error) []string {
	excluded = slices.Clone(excluded)
	for _, provider := range slices.Sorted(maps.Keys(refused)) {
		if !slices.Contains(excluded, provider) && len(excluded) < maxExcluded {
			excluded = append(excluded, provider)
		}
	}
	return excluded
}

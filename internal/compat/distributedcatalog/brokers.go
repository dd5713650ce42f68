package distributedcatalog

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
)

// dealtWith is a broker that the agent deals with.
type dealtWith struct {
	name string
	spec api.BrokerSpec
	BrokerDocument
}

func brokerOf(b api.Envelope[api.KnownBroker]) dealtWith {
	url := b.Payload.Status.URL
	return dealtWith{b.ID, b.Payload.Spec, BrokerDocument{
		BrokerID: brokerID(url), BrokerName: b.ID, BrokerEndpoint: url,
		Subscribed: meta.IsStatusConditionTrue(b.Payload.Status.Conditions, api.ConditionConnected),
	}}
}

// brokers are those that the agent deals with.
func (c *connector) brokers(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := c.Client.Brokers(r.Context())
	out := []BrokerDocument{}
	for _, b := range all {
		out = append(out, brokerOf(b).BrokerDocument)
	}
	return out, err
}

// catalogs is what others sell as a broker says it now. Errors: Unavailable where none is reached,
// though there may be a copy of it.
func (c *connector) catalogs(ctx context.Context) ([]Catalog, error) {
	all, err := c.Client.Brokers(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(b api.Envelope[api.KnownBroker]) bool { return brokerOf(b).Subscribed }) {
		return nil, api.Errorf(api.CodeUnavailable, "no broker is reached").FixBy("see", "bourse", "brokers")
	}
	return c.others(ctx)
}

// known is the broker of an ID or an address, nil if there is none.
func (c *connector) known(ctx context.Context, what string) (*dealtWith, error) {
	all, err := c.Client.Brokers(ctx)
	for _, b := range all {
		if b := brokerOf(b); b.BrokerID == what || b.BrokerEndpoint == strings.TrimSuffix(what, "/") {
			return &b, nil
		}
	}
	return nil, err
}

// addBroker: a broker is joined with a token of its operator, and not by its address.
func (c *connector) addBroker(_ http.ResponseWriter, r *http.Request) (any, error) {
	path, err := param(r, 512, "path")
	if err != nil {
		return nil, err
	}
	switch known, err := c.known(r.Context(), path); {
	case err != nil:
		return nil, err
	case known != nil:
		return inText(map[string]string{"brokerID": known.BrokerID}), nil
	}
	return nil, api.Errorf(api.CodeForbidden,
		"a broker is joined with a token of its operator, not by its address").At("path").
		Fix("ask the operator for one (bourse broker token create), and give it: bourse brokers add NAME --join TOKEN")
}

// setBroker enables a broker, or disables it: then nothing is said to it or heard of it.
func (c *connector) setBroker(_ http.ResponseWriter, r *http.Request) (any, error) {
	known, err := c.named(r)
	if err != nil {
		return nil, err
	}
	want := r.URL.Query().Get("subscribe")
	known.spec.Disabled = want != "1" && want != "true"
	if _, err := c.Client.PutBroker(r.Context(), known.name, known.spec); err != nil {
		return nil, err
	}
	if known.spec.Disabled {
		return withMessage("Broker unsubscribed"), nil
	}
	return withMessage("Broker subscribed"), nil
}

// removeBroker forgets one; what is agreed through it stays. The one that the agent was started
// with can only be disabled.
func (c *connector) removeBroker(_ http.ResponseWriter, r *http.Request) (any, error) {
	known, err := c.named(r)
	if err != nil {
		return nil, err
	}
	if err := c.Client.DeleteBroker(r.Context(), known.name); err != nil {
		return nil, err
	}
	return withMessage("Broker deleted"), nil
}

func (c *connector) named(r *http.Request) (*dealtWith, error) {
	id, err := param(r, 512, "id")
	if err != nil {
		return nil, err
	}
	known, err := c.known(r.Context(), id)
	if known == nil && err == nil {
		err = api.Errorf(api.CodeNotFound, "no broker %.80q", id).At("id").Fix("see: GET /api/brokers")
	}
	return known, err
}

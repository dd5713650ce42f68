package distributedcatalog

import (
	"context"
	"net/http"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// brokers are those that the agent deals with.
func (c *connector) brokers(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := c.Home.Brokers(r.Context())
	out := []BrokerDocument{}
	for _, b := range all {
		out = append(out, brokerDocument(b))
	}
	return out, err
}

func brokerDocument(b api.AgentStatus) BrokerDocument {
	name := strings.TrimPrefix(b.Broker, "https://")
	return BrokerDocument{BrokerID: brokerID(b.Broker), BrokerName: name, BrokerEndpoint: b.Broker, Subscribed: b.Connected}
}

// known is the broker of an ID or an address, nil if there is none.
func (c *connector) known(ctx context.Context, what string) (*BrokerDocument, error) {
	all, err := c.Home.Brokers(ctx)
	for _, b := range all {
		if d := brokerDocument(b); d.BrokerID == what || d.BrokerEndpoint == strings.TrimSuffix(what, "/") {
			return &d, nil
		}
	}
	return nil, err
}

// addBroker: a broker is joined with a token of its operator, and not by its address.
func (c *connector) addBroker(_ http.ResponseWriter, r *http.Request) (any, error) {
	at, err := param(r, 512, "path")
	if err != nil {
		return nil, err
	}
	switch known, err := c.known(r.Context(), at); {
	case err != nil:
		return nil, err
	case known != nil:
		return inText(map[string]string{"brokerID": known.BrokerID}), nil
	}
	return nil, api.Errorf(api.CodeForbidden, "a broker is joined with a token of its operator, not by its address").At("path").
		Fix("ask the operator for one (bourse broker token create) and start the agent with --join")
}

// setBroker answers what is so already: an agent that has joined is subscribed.
func (c *connector) setBroker(_ http.ResponseWriter, r *http.Request) (any, error) {
	known, err := c.named(r)
	if err != nil {
		return nil, err
	}
	if want := r.URL.Query().Get("subscribe"); want != "1" && want != "true" {
		return nil, api.Errorf(api.CodeForbidden, "an agent follows the broker that it has joined").At("subscribe").Fix("to leave %s: bourse uninstall", known.BrokerEndpoint)
	}
	return said("Broker subscribed"), nil
}

func (c *connector) removeBroker(_ http.ResponseWriter, r *http.Request) (any, error) {
	known, err := c.named(r)
	if err != nil {
		return nil, err
	}
	return nil, api.Errorf(api.CodeForbidden, "what is bought and sold through %s binds this cluster", known.BrokerEndpoint).At("id").
		Fix("leave it for good with bourse uninstall, or have its operator run: bourse broker remove")
}

func (c *connector) named(r *http.Request) (*BrokerDocument, error) {
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

package distributedcatalog

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// ready: an agent is set up when it has joined, before it listens.
func (c *connector) ready(http.ResponseWriter, *http.Request) (any, error) {
	return inText(map[string]string{"ready": "true"}), nil
}

// profile is the cluster's, with what it is where its admin said nothing.
func (c *connector) profile(ctx context.Context) (api.AgentStatus, Profile, error) {
	status, err := c.Status(ctx)
	if err != nil {
		return status, Profile{}, err
	}
	p, err := c.Home.Profile(ctx)
	p.PrettyName = cmp.Or(p.PrettyName, status.Cluster)
	p.ContractEndpoint = cmp.Or(p.ContractEndpoint, c.URL, status.Broker)
	return status, p, err
}

// change changes what its admin said of the cluster. Its offers get another pretty name first: a call that is repeated
// after an error goes on with the rest.
func (c *connector) change(ctx context.Context, change func(*Profile)) error {
	p, err := c.Home.Profile(ctx)
	if err != nil {
		return err
	}
	before := p
	change(&p)
	if p == before {
		return nil
	}
	if p.PrettyName != before.PrettyName {
		if err := c.renameOffers(ctx, before.PrettyName, p.PrettyName); err != nil {
			return err
		}
	}
	return c.Home.SetProfile(ctx, p)
}

// renameOffers gives the offers of this cluster that have its pretty name another one, so that buyers see it. Empty
// names are the cluster's ID. An offer with a name of its own keeps it.
func (c *connector) renameOffers(ctx context.Context, before, next string) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	before, next = cmp.Or(before, status.Cluster), cmp.Or(next, status.Cluster)
	own, err := c.Offers(ctx)
	for i := 0; i < len(own) && err == nil; i++ {
		spec := own[i].Payload.Spec
		if cmp.Or(spec.Labels[labelPretty], status.Cluster) != before {
			continue
		}
		labels := map[string]string{labelPretty: next}
		for name, value := range spec.Labels {
			if name != labelPretty {
				labels[name] = value
			}
		}
		if next == status.Cluster {
			delete(labels, labelPretty)
		}
		spec.Labels = labels
		_, err = c.PutOffer(ctx, own[i].ID, spec)
	}
	return err
}

func (c *connector) setProfile(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := param(r, 256, "prettyname")
	if err != nil {
		return nil, err
	}
	endpoint, err := endpointIn(r, "endpoint")
	if err != nil {
		return nil, err
	}
	err = c.change(r.Context(), func(p *Profile) { p.PrettyName, p.ContractEndpoint = name, endpoint })
	return inText(map[string]string{"message": "Catalog successfully initialized"}), err
}

func (c *connector) parameters(_ http.ResponseWriter, r *http.Request) (any, error) {
	status, err := c.Status(r.Context())
	return Provider{ClusterID: status.Cluster, ClusterName: status.Cluster,
		Endpoint: cmp.Or(c.URL, status.Broker), ClusterContractEndpoint: cmp.Or(c.URL, status.Broker)}, err
}

func (c *connector) prettyName(_ http.ResponseWriter, r *http.Request) (any, error) {
	_, p, err := c.profile(r.Context())
	return inText(map[string]string{"prettyName": p.PrettyName}), err
}

func (c *connector) setPrettyName(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := param(r, 256, "id", "prettyname")
	if err != nil {
		return nil, err
	}
	return withMessage("Pretty name updated"), c.change(r.Context(), func(p *Profile) { p.PrettyName = name })
}

func (c *connector) contractEndpoint(_ http.ResponseWriter, r *http.Request) (any, error) {
	_, p, err := c.profile(r.Context())
	return inText(map[string]string{"contractEndpoint": p.ContractEndpoint, "endpoint": p.ContractEndpoint}), err
}

func (c *connector) setContractEndpoint(_ http.ResponseWriter, r *http.Request) (any, error) {
	endpoint, err := endpointIn(r, "id", "endpoint")
	if err != nil {
		return nil, err
	}
	if err := c.change(r.Context(), func(p *Profile) { p.ContractEndpoint = endpoint }); err != nil {
		return nil, err
	}
	status, err := c.Status(r.Context())
	return withMessage("Contract endpoint kept. Buyers still come to " +
		cmp.Or(c.URL, status.Broker) + ": another address is --connector-url of the agent"), err
}

// endpointIn is an address that an admin says. Nobody calls it.
func endpointIn(r *http.Request, names ...string) (string, error) {
	endpoint, err := param(r, 512, names...)
	if err == nil && !strings.HasPrefix(endpoint, "https://") && !strings.HasPrefix(endpoint, "http://") {
		err = api.Invalid(names[0], "%.80q is not a URL", endpoint).Fix("write https://HOST:PORT")
	}
	return endpoint, err
}

package distributedcatalog

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
)

func (c *connector) offers(_ http.ResponseWriter, r *http.Request) (any, error) {
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	own, err := c.Offers(r.Context())
	out := []Offer{}
	for i := range own {
		out = append(out, show(status.Cluster, own[i].ID, &own[i].Payload.Spec, nil))
	}
	return out, err
}

func (c *connector) putOffer(w http.ResponseWriter, r *http.Request) (any, error) {
	var offer Offer
	if err := readBody(w, r, &offer); err != nil {
		return nil, err
	}
	status, p, err := c.profile(r.Context())
	if err != nil {
		return nil, err
	}
	was, err := c.ownOffer(r.Context(), status.Cluster, offer.OfferID)
	if err != nil && api.CodeOf(err) != api.CodeNotFound {
		return nil, err
	}
	offer.ClusterPrettyName = cmp.Or(offer.ClusterPrettyName, p.PrettyName)
	var before *api.OfferSpec
	if was != nil {
		before = &was.Payload.Spec
	}
	name, spec, err := offer.read(status.Cluster, before)
	if err != nil {
		return nil, err
	}
	if _, err := c.PutOffer(r.Context(), name, spec); err != nil {
		return nil, err
	}
	c.settles(r.Context(), func() bool {
		now, err := c.ownOffer(r.Context(), status.Cluster, offer.OfferID)
		return err == nil && equality.Semantic.DeepEqual(now.Payload.Spec, spec)
	})
	return withMessage("Offer updated"), nil
}

// settles waits briefly until our view of the cluster shows the last write, because its caller reads it next.
func (c *connector) settles(ctx context.Context, shown func() bool) {
	for deadline := time.Now().Add(5 * time.Second); !shown() && pause(ctx, deadline) == nil; {
	}
}

// ownOffer is the offer of this cluster that has an ID. Errors: NotFound.
func (c *connector) ownOffer(ctx context.Context, cluster, id string) (*api.Envelope[api.OwnOffer], error) {
	own, err := c.Offers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range own {
		if known := offerID(cluster, own[i].ID, &own[i].Payload.Spec); known == id || cluster+"_"+own[i].ID == id {
			return &own[i], nil
		}
	}
	return nil, noOffer(id)
}

func noOffer(id string) error {
	return api.Errorf(api.CodeNotFound, "this cluster has no offer %.80q", id).Fix("see: GET /api/offers")
}

func (c *connector) deleteOffer(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if id == "" {
		var err error
		if id, err = param(r, maxID, "id"); err != nil {
			return nil, err
		}
	}
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	offer, err := c.ownOffer(r.Context(), status.Cluster, id)
	if err != nil {
		return nil, err
	}
	if err := c.DeleteOffer(r.Context(), offer.ID); err != nil {
		if api.CodeOf(err) == api.CodeNotFound { // it has gone since
			err = noOffer(id)
		}
		return nil, err
	}
	c.settles(r.Context(), func() bool {
		_, err := c.ownOffer(r.Context(), status.Cluster, id)
		return err != nil
	})
	return withMessage("Offer deleted"), nil
}

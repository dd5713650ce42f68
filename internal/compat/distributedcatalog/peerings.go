package distributedcatalog

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// peerings are the clusters with which Bourse has made a peering, or is about to, with what one has
// of the other by contracts.
func (c *connector) peerings(_ http.ResponseWriter, r *http.Request) (any, error) {
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	made, err := c.Home.Peerings(r.Context())
	if err != nil {
		return nil, err
	}
	deals, err := c.Client.Contracts(r.Context())
	if err != nil {
		return nil, err
	}
	all := map[string]*PeeringDocument{}
	of := func(cluster string) *PeeringDocument {
		if all[cluster] == nil {
			all[cluster] = &PeeringDocument{ClusterID: cluster, Name: cluster,
				Networking: "None", Authentication: "None", OutgoingPeering: "None", IncomingPeering: "None"}
		}
		return all[cluster]
	}
	in, out := map[string][2]api.Resources{}, map[string][2]api.Resources{}
	for i := range deals {
		d := &deals[i].Payload
		if t := d.Status.Terms; inForce(d.Status.State) {
			if t.Buyer == status.Cluster {
				of(t.Seller)
				out[t.Seller] = plus(out[t.Seller], d)
			} else {
				of(t.Buyer)
				in[t.Buyer] = plus(in[t.Buyer], d)
			}
		}
	}
	for i := range made {
		p := &made[i]
		d := of(p.Spec.Cluster)
		state := "Pending"
		if p.Status.State == api.PeeringOpen || p.Status.State == api.PeeringLingering {
			state = "Established"
		}
		if d.Authentication != "Established" {
			d.Authentication = state
		}
		if p.Spec.Role == api.RoleProvider {
			d.OutgoingPeering = state
		} else {
			d.IncomingPeering = state
		}
		if meta.IsStatusConditionTrue(p.Status.Conditions, api.ConditionNetworkReady) {
			d.Networking = "Established"
		}
		if since := p.Status.Since; since != nil {
			d.Age = duration.HumanDuration(time.Since(since.Time))
		}
	}
	documents := []PeeringDocument{}
	for cluster, d := range all {
		d.OutgoingResources, d.IncomingResources = usage(out[cluster]), usage(in[cluster])
		documents = append(documents, *d)
	}
	slices.SortFunc(documents, func(a, b PeeringDocument) int { return strings.Compare(a.ClusterID, b.ClusterID) })
	return documents, nil
}

// plus adds what a contract has, and what of that is used, to the sums of both.
func plus(sums [2]api.Resources, d *api.Deal) [2]api.Resources {
	for i, more := range []api.Resources{d.Status.Terms.Resources, d.Used} {
		if sums[i] == nil {
			sums[i] = api.Resources{}
		}
		for name, amount := range more {
			sum := sums[i][name]
			sum.Add(amount)
			sums[i][name] = sum
		}
	}
	return sums
}

func usage(sums [2]api.Resources) PeeringUsage {
	text := func(i int, name corev1.ResourceName) string {
		amount := sums[i][name]
		return cmp.Or(amount.String(), "0")
	}
	return PeeringUsage{UsedCPUs: text(1, "cpu"), UsedMemory: text(1, "memory"),
		TotalCPUs: text(0, "cpu"), TotalMemory: text(0, "memory")}
}

// peer says that the peering with a seller is made, or being made, because something was bought
// there. Nobody peers without, and no token is needed: the parameters that carry one are not read.
func (c *connector) peer(_ http.ResponseWriter, r *http.Request) (any, error) {
	live, seller, err := c.bought(r)
	if err != nil {
		return nil, err
	}
	if len(live) == 0 {
		return nil, api.Errorf(api.CodeConflict, "nothing is bought of %s that a peering would be for", seller).At("id").
			Fix("buy first: the agents peer by themselves for what was bought")
	}
	return map[string]string{"status": "ok"}, nil
}

// unpeer releases all that this cluster has reserved at a provider: the peering goes with the last of it.
func (c *connector) unpeer(_ http.ResponseWriter, r *http.Request) (any, error) {
	live, seller, err := c.bought(r)
	if err != nil {
		return nil, err
	}
	if len(live) == 0 {
		return nil, api.Errorf(api.CodeNotFound, "this cluster has nothing at %s", seller).At("id").
			Fix("what %s has here ends with: bourse evict %s", seller, seller)
	}
	for _, id := range live {
		if err := c.ReleaseLocally(r.Context(), id, api.Release{}); err != nil && api.CodeOf(err) != api.CodeNotFound {
			return nil, err
		}
	}
	return map[string]string{"status": "ok"}, nil
}

// bought are the reservations that this cluster has at the provider that a call names.
func (c *connector) bought(r *http.Request) (live []string, provider string, err error) {
	if provider, err = param(r, 63, "id"); err != nil {
		return nil, "", err
	}
	if err := market.ValidCluster("id", provider); err != nil {
		return nil, "", err
	}
	all, err := c.Requests(r.Context())
	for _, status := range all {
		if s := status.Payload.Status; s.Provider == provider && s.Reservation != "" && inForce(s.State) {
			live = append(live, s.Reservation)
		}
	}
	return live, provider, err
}

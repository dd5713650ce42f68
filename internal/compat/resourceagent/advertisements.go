package resourceagent

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/compat"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/trust"
)

// started and advertised number the advertisements that come, which number nothing themselves.
var (
	started    = time.Now().UnixMilli()
	advertised atomic.Int64
)

// advertise takes in an advertisement. The first one of a cluster asks to be admitted.
func (a *agents) advertise(r *http.Request) (compat.Answer, error) {
	caller, err := compat.Cluster(r)
	if err != nil {
		return compat.Answer{}, err
	}
	var in advertisementDTO
	var sent costsDTO
	if err := compat.Decode(r, &in, &sent); err != nil {
		return compat.Answer{}, err
	}
	if in.ClusterID != caller.Name {
		return compat.Answer{}, api.Errorf(api.CodeForbidden, "cluster %s may not speak for %.80q",
			caller.Name, in.ClusterID).At("clusterID").
			Fix("advertise as %s, which the certificate names", caller.Name)
	}
	properties := in.properties()
	if err := market.CheckShown(&api.Card{Cluster: in.ClusterID, Properties: properties}); err != nil {
		return compat.Answer{}, err
	}
	claimed, err := in.claim()
	if err != nil {
		return compat.Answer{}, err
	}
	counted, err := a.deputy.counted(r.Context(), in.ClusterID)
	if err != nil {
		return compat.Answer{}, err
	}
	measurement, err := in.measurement(counted.Resources())
	if err != nil {
		return compat.Answer{}, err
	}
	l, err := a.admitted(r, caller.Name)
	if err != nil {
		return compat.Answer{}, err
	}
	if err := a.deputy.show(r.Context(), l, properties); err != nil {
		return compat.Answer{}, err
	}
	if err := a.Server.Observe(r.Context(), l.Cluster, measurement); err != nil &&
		api.CodeOf(err) != api.CodeStaleAdvertisement {
		return compat.Answer{}, err // a newer one has overtaken it: that is as good
	}
	a.claims.put(l.Cluster, claimed)
	instructions, err := a.instructed(r.Context(), l)
	if err != nil {
		return compat.Answer{}, err
	}
	return compat.Answer{Status: http.StatusOK, Body: advertisedDTO{a.shownOf(a.Server.Exchange.View().Listing(l.Cluster)),
		instructions, sent.notRead()}}, nil
}

// maxIgnored is how many fields an answer names as not read.
const maxIgnored = 16

// costsDTO are all fields of the cost of an advertisement.
type costsDTO struct {
	Cost map[string]json.RawMessage `json:"cost"`
}

// notRead returns those that nothing here reads, by name.
func (sent costsDTO) notRead() (fields []string) {
	for _, name := range slices.Sorted(maps.Keys(sent.Cost)) {
		known := strings.EqualFold(name, "renewable") || strings.EqualFold(name, "energyCost") // as JSON is read
		if !known && len(fields) < maxIgnored {
			fields = append(fields, "cost."+trust.Text(name[:min(len(name), 64)]))
		}
	}
	return fields
}

// admitted returns the caller as a legacy member; one that nobody knows now waits for approval.
func (a *agents) admitted(r *http.Request, cluster string) (*market.Listing, error) {
	if l := a.Server.Exchange.View().Listing(cluster); l == nil || l.Member == nil || l.Member.State == api.MemberRemoved {
		if err := a.deputy.enroll(r.Context(), cluster, r.RemoteAddr); err != nil {
			return nil, err
		}
		a.Log.Info("a cluster of the prototypes asks to be admitted", "cluster", cluster, "from", r.RemoteAddr)
	}
	return a.legacy(r)
}

// instructed fetches a provider's instructions.
func (a *agents) instructed(ctx context.Context, l *market.Listing) ([]reservationDTO, error) {
	all, err := a.deputy.fetch(ctx, l)
	out := make([]reservationDTO, 0, len(all))
	for _, r := range all {
		out = append(out, shown(r))
	}
	return out, err
}

// advertisement answers with the advertisement of a cluster that the caller may see.
func (a *agents) advertisement(r *http.Request) (compat.Answer, error) {
	caller, err := compat.Cluster(r)
	if err != nil {
		return compat.Answer{}, err
	}
	id := r.PathValue("clusterID")
	l := a.Server.Exchange.View().Listing(id)
	missing := api.Errorf(api.CodeNotFound, "no advertisement of %.80q that you may see", id)
	if id == caller.Name && (l == nil || l.Measured == nil) { // an agent reads its own before it makes it
		return compat.Answer{}, missing
	}
	viewer, err := compat.Member(a.Server, r)
	if err != nil {
		return compat.Answer{}, err
	}
	if l == nil || l.Member == nil || l.Measured == nil || !server.Sees(viewer, l) {
		return compat.Answer{}, missing
	}
	return compat.Answer{Status: http.StatusOK, Body: a.shownOf(l)}, nil
}

// Labels of the card that keep what the prototypes' agents say of themselves.
const (
	countryLabel   = "country"
	cityLabel      = "city"
	renewableLabel = "renewable"
)

// properties are what requests can select the cluster by.
func (a *advertisementDTO) properties() api.Properties {
	labels := map[string]string{}
	if a.ClusterName != "" {
		labels[compat.NameLabel] = a.ClusterName
	}
	p := api.Properties{Labels: labels}
	if l := a.Location; l != nil {
		p.Region = l.Region
		for label, value := range map[string]string{countryLabel: l.CountryCode, cityLabel: l.City} {
			if value != "" {
				labels[label] = value
			}
		}
	}
	if a.Cost != nil && a.Cost.Renewable {
		labels[renewableLabel] = "true"
	}
	return p
}

// measurement is what an advertisement comes to. counted is what its available is less already:
// what is shared is both together, and no more than there is. Errors: Invalid with the field.
func (a *advertisementDTO) measurement(counted api.Resources) (api.Measurement, error) {
	var out api.Pool
	var available api.Resources
	for _, part := range []struct {
		name     string
		from     quantitiesDTO
		to       *api.Resources
		negative bool
	}{
		{"capacity", a.Resources.Capacity, &out.Capacity, false}, {"allocatable",
			a.Resources.Allocatable, &out.Allocatable, false},
		{"allocated", a.Resources.Allocated, &out.Allocated, false}, {"available", a.Resources.Available, &available, true},
	} {
		var err error
		if *part.to, err = part.from.amounts("resources."+part.name, part.negative); err != nil {
			return api.Measurement{}, err
		}
		if _, err = amounts.ParseCapacity("resources."+part.name, *part.to); err != nil {
			return api.Measurement{}, err
		}
	}
	out.Shared = api.Resources{}
	for name, all := range out.Allocatable {
		shared := resource.Quantity{Format: all.Format}
		shared.Add(available[name])
		shared.Add(counted[name])
		if shared.Cmp(all) > 0 {
			shared = all
		}
		out.Shared[name] = shared
	}
	return api.Measurement{
		Sequence: api.Sequence{Incarnation: started, Number: advertised.Add(1)},
		Terms:    &api.Terms{Trust: api.TrustLegacy},
		Pools:    map[string]api.Pool{api.GeneralPool: out},
	}, nil
}

// shownOf is a cluster's advertisement in the prototypes' words.
func (a *agents) shownOf(l *market.Listing) advertisementDTO {
	p := l.Card().Properties
	out := advertisementDTO{ClusterID: l.Cluster, ClusterName: cmp.Or(p.Labels[compat.NameLabel], l.Cluster)}
	if l.FreshUntil != 0 {
		out.Timestamp = l.FreshUntil.Go().Add(-market.Lease)
	}
	if region, country, city := p.Region, p.Labels[countryLabel], p.Labels[cityLabel]; region+country+city != "" {
		out.Location = &locationDTO{CountryCode: country, Region: region, City: city}
	}
	if p.Labels[renewableLabel] == "true" {
		out.Cost = &costDTO{Renewable: true}
	}
	m, pool := l.Measured.Pools[api.GeneralPool], l.Pool(api.GeneralPool)
	out.Resources = metricsDTO{
		Capacity: written(m.Capacity.Resources()), Allocatable: written(m.Allocatable.Resources()),
		Allocated: written(m.Allocated.Resources()),
		Available: quantitiesDTO{CPU: "0", Memory: "0"},
	}
	if pool != nil {
		out.Resources.Available = written(pool.Available.Resources())
		if len(pool.Reserved) > 0 {
			reserved := written(pool.Reserved.Resources())
			out.Resources.Reserved = &reserved
		}
	}
	if l.Member.Legacy {
		a.claims.add(&out)
	}
	return out
}

// under makes an error of a request one of the prototypes' field.
func under(err error) error {
	if e, ok := err.(*api.Error); ok && strings.HasPrefix(e.Field, "resources") {
		within := *e
		return within.At("requestedR" + strings.TrimPrefix(e.Field, "r"))
	}
	return err
}

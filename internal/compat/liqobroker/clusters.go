package liqobroker

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

// foreignCluster is a cluster in the shape of the ForeignCluster that liqo-broker's catalog gave out.
type foreignCluster struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   foreignMeta     `json:"metadata"`
	Spec       foreignSpec     `json:"spec"`
	Status     json.RawMessage `json:"status,omitempty"`
}

type foreignMeta struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid,omitempty"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp,omitzero"`
	Labels            map[string]string `json:"labels,omitempty"`
}

type foreignSpec struct {
	ClusterIdentity foreignIdentity `json:"clusterIdentity"`
	// OutgoingPeeringEnabled is whether the caller enabled the cluster: Yes, No, or Auto while it
	// has not begun to choose.
	OutgoingPeeringEnabled string `json:"outgoingPeeringEnabled"`
	IncomingPeeringEnabled string `json:"incomingPeeringEnabled"`
	NetworkingEnabled      string `json:"networkingEnabled"`
	ForeignAuthURL         string `json:"foreignAuthUrl"`
	InsecureSkipTLSVerify  bool   `json:"insecureSkipTLSVerify"`
	// TTL is how long an advertisement is fresh, in seconds.
	TTL int `json:"ttl"`
}

type foreignIdentity struct {
	ClusterID   string `json:"clusterID"`
	ClusterName string `json:"clusterName"`
}

const (
	foreignVersion = "discovery.liqo.io/v1alpha1"
	foreignID      = "discovery.liqo.io/cluster-id"
	foreignKind    = "discovery.liqo.io/discovery-type"
)

// clusters lists those that the broker's own cluster knows, and the members that show themselves to
// the caller.
func (b *liqoBroker) clusters(r *http.Request) (compat.Answer, error) {
	operator := server.CallerOf(r.Context()).Role == tlsid.RoleOperator
	var viewer *market.Listing
	if !operator {
		var err error
		if viewer, err = compat.Member(b.Server, r); err != nil {
			return compat.Answer{}, err
		}
	}
	view := b.Server.Exchange.View()
	out, hidden := []foreignCluster{}, map[string]bool{}
	for slot := range view.Len() {
		l := view.At(slot)
		if l.Gone() || b.Aggregator && !l.Card().Properties.Aggregator {
			continue
		}
		if hidden[l.Cluster] = true; operator || l.Cluster != viewer.Cluster && server.Sees(viewer, l) {
			out = append(out, projected(l))
		}
	}
	known, err := b.foreignClusters(r)
	if err != nil {
		return compat.Answer{}, err
	}
	for _, f := range known {
		if !hidden[f.Spec.ClusterIdentity.ClusterID] { // a member says itself who sees it
			out = append(out, f)
		}
	}
	for i := range out {
		out[i].Spec.OutgoingPeeringEnabled = enabled(viewer, out[i].Spec.ClusterIdentity.ClusterID)
	}
	slices.SortFunc(out, func(a, b foreignCluster) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return compat.Answer{Status: http.StatusOK, Body: out}, nil
}

// enabled says what a consumer chose of a provider.
func enabled(viewer *market.Listing, provider string) string {
	switch {
	case viewer == nil || viewer.Member.Enabled == nil:
		return "Auto"
	case viewer.Member.Enables(provider):
		return "Yes"
	}
	return "No"
}

// projected is a member in the shape of a ForeignCluster.
func projected(l *market.Listing) foreignCluster {
	p := l.Card().Properties
	f := inShape(l.Cluster, cmp.Or(p.Labels[compat.NameLabel], l.Cluster))
	f.Metadata.CreationTimestamp = l.Member.Joined.Meta()
	f.Metadata.Labels[foreignKind] = "Bourse"
	f.Spec.NetworkingEnabled, f.Spec.ForeignAuthURL = yesNo(p.Network == api.NetworkWireGuard), p.APIServer
	return f
}

func yesNo(yes bool) string {
	if yes {
		return "Yes"
	}
	return "No"
}

func inShape(id, name string) foreignCluster {
	return foreignCluster{
		Kind: "ForeignCluster", APIVersion: foreignVersion,
		Metadata: foreignMeta{Name: id, Labels: map[string]string{foreignID: id}},
		Spec: foreignSpec{
			ClusterIdentity: foreignIdentity{id, name}, IncomingPeeringEnabled: "Auto",
			TTL: int(market.Lease.Seconds()),
		},
	}
}

// foreignClusters are those of the broker's own cluster, of Liqo 1.x, in the shape that the catalog gave out.
func (b *liqoBroker) foreignClusters(r *http.Request) (out []foreignCluster, err error) {
	if b.ForeignClusters == nil || b.Aggregator {
		return nil, nil
	}
	all, err := b.ForeignClusters(r.Context())
	if err != nil {
		return nil, api.Errorf(api.CodeUnavailable, "the broker's own cluster does not say which clusters it knows: %s", err).
			Fix("try again, or look at the broker's rights")
	}
	for _, object := range all {
		var in struct {
			Metadata foreignMeta `json:"metadata"`
			Spec     struct {
				ClusterID string `json:"clusterID"`
			} `json:"spec"`
			Status struct {
				APIServerURL string `json:"apiServerUrl"`
				Modules      struct {
					Networking struct {
						Enabled bool `json:"enabled"`
					} `json:"networking"`
				} `json:"modules"`
			} `json:"status"`
		}
		if err := json.Unmarshal(object, &in); err != nil {
			return nil, err
		}
		var whole struct {
			Status json.RawMessage `json:"status"`
		}
		_ = json.Unmarshal(object, &whole) // it was read once
		f := inShape(cmp.Or(in.Spec.ClusterID, in.Metadata.Name), in.Metadata.Name)
		for label, value := range in.Metadata.Labels {
			f.Metadata.Labels[label] = value
		}
		f.Metadata.Name, f.Metadata.UID, f.Metadata.CreationTimestamp = in.Metadata.Name,
			in.Metadata.UID, in.Metadata.CreationTimestamp
		f.Spec.NetworkingEnabled = yesNo(in.Status.Modules.Networking.Enabled)
		f.Spec.ForeignAuthURL, f.Status = in.Status.APIServerURL, whole.Status
		out = append(out, f)
	}
	return out, nil
}

// chosenDTO is what a consumer chose; null: it has not begun to, and every provider may serve it.
type chosenDTO struct {
	Providers []string `json:"providers"`
}

// toggle enables or disables a provider for the caller's requests. As with the prototype, any value but
// `true` disables, and the answer is empty. Unlike there, the ID must be known: a mistyped one would begin
// a choice of nobody. Without an ID it returns the present choice.
func (b *liqoBroker) toggle(r *http.Request) (compat.Answer, error) {
	l, err := compat.Member(b.Server, r)
	if err != nil {
		return compat.Answer{}, err
	}
	query := r.URL.Query()
	if r.Method == http.MethodGet && !query.Has("id") && !query.Has("enable") {
		var out chosenDTO
		if l.Member.Enabled != nil {
			out.Providers = l.Member.Enabled.Providers
		}
		return compat.Answer{Status: http.StatusOK, Body: out}, nil
	}
	change := *r
	change.Method = http.MethodPost // a GET, too, changes something here
	if err := server.CheckOrigin(&change); err != nil {
		return compat.Answer{}, err
	}
	command := market.Enable{Consumer: l.Cluster, Provider: query.Get("id"), Enabled: query.Get("enable") == "true"}
	if err := market.ValidCluster("id", command.Provider); err != nil {
		return compat.Answer{}, err
	}
	target := b.Server.Exchange.View().Listing(command.Provider)
	shows := target != nil && target.Cluster != l.Cluster && target.Member != nil && server.Sees(l, target)
	// What the caller enabled before may be hidden, or gone, by now: it can still be disabled.
	listed := !command.Enabled && l.Member.Enabled != nil && l.Member.Enables(command.Provider)
	if !shows && !listed {
		return compat.Answer{}, api.Errorf(api.CodeNotFound, "no cluster %.80q that shows itself to you",
			command.Provider).At("id").Fix("see /api/clusters")
	}
	out, err := b.Server.Exchange.Do(r.Context(), command)
	if err == nil {
		b.charge(r, out.Member)
	}
	return compat.Answer{Status: http.StatusOK}, err
}

// charge makes a caller pay for its whole choice: each change of it writes all of it, and sends it to each watch.
func (b *liqoBroker) charge(r *http.Request, m *market.Member) {
	caller, err := compat.Cluster(r)
	if err != nil || m == nil || m.Enabled == nil {
		return
	}
	bytes := 0
	for _, provider := range m.Enabled.Providers {
		bytes += len(provider)
	}
	b.Server.ChargeWritten(caller, bytes)
}

// untoggle lets every provider serve the caller's requests again.
func (b *liqoBroker) untoggle(r *http.Request) (compat.Answer, error) {
	l, err := compat.Member(b.Server, r)
	if err == nil {
		_, err = b.Server.Exchange.Do(r.Context(), market.EnableAll{Consumer: l.Cluster})
	}
	return compat.Answer{Status: http.StatusOK}, err
}

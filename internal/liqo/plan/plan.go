// Package plan is what Bourse would make of Liqo's objects for a reservation, for people to read before they reserve.
package plan

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// Reservation is what there is to plan for.
type Reservation struct {
	Consumer, Provider, Slice string
	Resources                 api.Resources
	// Offload is what the request says of namespaces; nil: nothing.
	Offload *api.Offload
	// Network is what the request says of one.
	Network api.NetworkMode
}

// Step is an object that would be made.
type Step struct {
	// Cluster is where, By whose doing.
	Cluster, By string
	Object      client.Object
}

// Objects are those of both sides, in the order in which they are made. What both sides exchange, and what Liqo makes of
// it, is left out: nonces, certificates, virtual nodes.
func Objects(r Reservation) []Step {
	agent := func(cluster string) string { return "by the agent of " + cluster }
	there, here := liqo.NewTenantNamespace(r.Consumer), liqo.NewTenantNamespace(r.Provider)
	steps := []Step{
		{r.Provider, agent(r.Provider), there},
		{r.Consumer, agent(r.Consumer), here},
		{r.Provider, agent(r.Provider), peering.NewTenant(there.Name, r.Consumer)},
		{r.Consumer, agent(r.Consumer), peering.NewIdentity(here.Name, r.Provider)},
	}
	if r.Network == api.NetworkWireGuard {
		steps = append(steps, connection(r, there.Name, here.Name)...)
	}
	steps = append(steps, Step{r.Consumer, agent(r.Consumer), offload.NewSlice(here.Name, r.Provider, r.Slice, r.Resources)})
	if r.Offload == nil {
		return steps
	}
	for _, name := range r.Offload.Namespaces {
		mapped := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + r.Consumer, Labels: map[string]string{guard.Label: "true"}}}
		steps = append(steps,
			Step{r.Consumer, agent(r.Consumer), offload.NewOffloading(offload.Use{Namespace: name, Providers: []string{r.Provider}, Strategy: r.Offload.Strategy})},
			Step{r.Provider, "by Liqo; its guards by the agent of " + r.Provider, mapped},
		)
		for _, o := range guard.Objects(mapped, nil) {
			steps = append(steps, Step{r.Provider, agent(r.Provider), o})
		}
	}
	return steps
}

// connection is the network of the two, where the provider's gateway is the one that is dialled. Addresses are left out, and
// keys: both sides exchange them.
func connection(r Reservation, there, here string) []Step {
	nothing := &api.HandshakeNetwork{}
	return []Step{
		{r.Provider, "by the agent of " + r.Provider, network.NewConfiguration(there, r.Consumer, nothing)},
		{r.Consumer, "by the agent of " + r.Consumer, network.NewConfiguration(here, r.Provider, nothing)},
		{r.Provider, "by the agent of " + r.Provider, network.NewServer(there, r.Consumer, "liqo", network.GatewayLoadBalancer)},
		{r.Consumer, "by the agent of " + r.Consumer, network.NewClient(here, r.Provider, "liqo", &api.HandshakeEndpoint{})},
	}
}

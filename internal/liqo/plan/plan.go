// Package plan lists the Liqo objects that Bourse would make for a reservation, so that users can
// read them before they reserve.
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

// Reservation is the reservation to plan.
type Reservation struct {
	Consumer, Provider, Slice string
	Resources                 api.Resources
	// Offload is the request's offloading of namespaces; nil: none.
	Offload *api.Offload
	// Network is the network that the request asks for.
	Network api.NetworkMode
}

// Step is an object that would be made.
type Step struct {
	// Cluster is the cluster of the object; By names the component that makes it.
	Cluster, By string
	Object      client.Object
}

// Objects returns the objects of both sides, in the order in which they are made. It omits what the
// sides exchange and what Liqo makes: nonces, certificates, virtual nodes.
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
	steps = append(steps, Step{r.Consumer, agent(r.Consumer),
		offload.NewSlice(here.Name, r.Provider, r.Slice, r.Resources)})
	if r.Offload == nil {
		return steps
	}
	for _, name := range r.Offload.Namespaces {
		mapped := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + r.Consumer,
			Labels: map[string]string{guard.Label: "true"}}}
		steps = append(steps,
			Step{r.Consumer, agent(r.Consumer),
				offload.NewOffloading(offload.Use{Namespace: name, Providers: []string{r.Provider}, Strategy: r.Offload.Strategy})},
			Step{r.Provider, "by Liqo; its guards by the agent of " + r.Provider, mapped},
		)
		for _, o := range guard.Objects(mapped, nil) {
			steps = append(steps, Step{r.Provider, agent(r.Provider), o})
		}
	}
	return steps
}

// connection returns the objects of the network, with the provider's gateway as the server. It omits
// addresses and keys, because the sides exchange them.
func connection(r Reservation, there, here string) []Step {
	nothing := &api.HandshakeNetwork{}
	return []Step{
		{r.Provider, "by the agent of " + r.Provider, network.NewConfiguration(there, r.Consumer, nothing)},
		{r.Consumer, "by the agent of " + r.Consumer, network.NewConfiguration(here, r.Provider, nothing)},
		{r.Provider, "by the agent of " + r.Provider,
			network.NewServer(there, r.Consumer, "liqo", network.GatewayLoadBalancer)},
		{r.Consumer, "by the agent of " + r.Consumer, network.NewClient(here, r.Provider, "liqo", &api.HandshakeEndpoint{})},
	}
}

package lending

import (
	"context"
	"fmt"
	"sync"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// Peerings with many consumers open at the same time. The policies list all of them, and a consumer
// that has sent a message gets nothing before the policies are in force.
func TestManyOpenAtOnce(t *testing.T) {
	var types []kubeapi.Type
	for _, t := range []struct {
		of         schema.GroupVersion
		kind, name string
	}{
		{authv1beta1.GroupVersion, authv1beta1.TenantKind, "tenants"}, {authv1beta1.GroupVersion,
			authv1beta1.IdentityKind, "identities"},
		{authv1beta1.GroupVersion, authv1beta1.ResourceSliceKind, "resourceslices"}, {authv1beta1.GroupVersion,
			"Renew", "renews"},
		{offv1beta1.SchemeGroupVersion, "NamespaceMap", "namespacemaps"},
		{networkingv1beta1.GroupVersion, "Configuration", "configurations"}, {networkingv1beta1.GroupVersion,
			"GatewayServer", "gatewayservers"},
		{networkingv1beta1.GroupVersion, "GatewayClient", "gatewayclients"}, {networkingv1beta1.GroupVersion,
			"PublicKey", "publickeies"},
		{networkingv1beta1.GroupVersion, "Connection", "connections"},
	} {
		types = append(types, kubeapi.Type{GroupVersion: t.of, Kind: t.kind,
			Resource: t.name, Namespaced: true, Status: true})
	}
	k := kubeapi.New(kubeapi.Options{Types: types})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	listed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-consumers"}}
	if err := c.Create(ctx, listed); err != nil {
		t.Fatal(err)
	}
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	l := New(Options{
		Client: c, Reader: c, Cluster: "milan",
		Market: ledger, Usage: NewUsage(UsageOptions{Market: ledger}),
		Policies: &posture.Policies{Known: c, Reader: c, Writer: c, Namespace: "bourse", Cluster: "milan"},
		Sharing:  func() *api.Sharing { return &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}} },
		Suspension: func(context.Context, string) (metav1.Condition, error) {
			return metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionFalse}, nil
		},
	})
	const count = 20
	name := func(i int) string { return fmt.Sprintf("consumer-%d", i) }
	var opened sync.WaitGroup
	for i := range count {
		opened.Go(func() {
			p, err := l.Open(ctx, name(i), nil)
			if err != nil || p.Open || p.Step == "" {
				t.Errorf("%s: %+v, %v", name(i), p, err)
			}
			for range 2 {
				if _, err := l.Open(ctx, name(i), &api.Handshake{Session: p.Session}); err == nil {
					t.Errorf("%s opens without policies", name(i))
				}
			}
		})
	}
	opened.Wait()
	if err := c.Get(ctx, client.ObjectKeyFromObject(listed), listed); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if listed.Data[name(i)] == "" {
			t.Errorf("the policies do not list %s", name(i))
		}
		if done, err := l.Close(ctx, name(i), false); err != nil || !done {
			t.Errorf("%s is not closed: %v, %v", name(i), done, err)
		}
	}
	l.consumers.Range(func(consumer, _ any) bool {
		t.Errorf("%s is remembered", consumer)
		return true
	})
	if p, err := l.Open(ctx, name(0), nil); err != nil || p.Step != peering.StepTenant && p.Step != peering.StepNonce {
		t.Errorf("again: %+v, %v", p, err)
	}
}

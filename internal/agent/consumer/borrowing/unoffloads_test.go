package borrowing

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The end of a reservation takes those of its namespaces away that no longer reservation with the
// same provider may offload.
func TestUnoffloads(t *testing.T) {
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "ResourceRequest", Resource: "resourcerequests",
			Namespaced: true, Status: true},
		{GroupVersion: api.GroupVersion, Kind: "VirtualNodePool", Resource: "virtualnodepools", Status: true},
		{GroupVersion: api.GroupVersion, Kind: "SharingPolicy", Resource: "sharingpolicies", Status: true},
	}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	now := ledger.Now().Go()
	for name, owner := range map[string]string{"shared": "other", "closed": ""} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{api.RequestsFromLabel: owner}}}
		if err := c.Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	size, err := amounts.ParseRequest("", transporttest.CPU("1"))
	if err != nil {
		t.Fatal(err)
	}
	loans := map[string]*market.Reservation{}
	for _, l := range []struct {
		id, namespace, provider string
		offload                 []string
		left                    time.Duration
	}{
		{"ends", "work", "milan", []string{"work", "shared", "closed"}, 2 * time.Hour},
		{"keeps", "work", "milan", []string{"work"}, 3 * time.Hour},
		{"shares", "other", "milan", []string{"shared", "closed"}, time.Hour},
		{"elsewhere", "work", "paris", []string{"work", "shared"}, 9 * time.Hour},
		{"plain", "work", "milan", nil, 9 * time.Hour},
	} {
		request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.id}}
		if l.offload != nil {
			request.Spec.Offload = &api.Offload{Namespaces: l.offload}
		}
		if err := c.Create(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		r := &market.Reservation{
			ID: l.id, State: api.Active, Consumer: "rome", Provider: l.provider, Pool: api.GeneralPool, Size: size, Assignment: "assignment",
			Until:  market.At(now.Add(l.left)),
			Object: &market.Object{Namespace: l.namespace, Name: l.id, UID: string(request.UID)},
		}
		if _, err := ledger.Do(t.Context(), market.Note{Reservation: r}); err != nil {
			t.Fatal(err)
		}
		loans[l.id] = r
	}
	b := New(Options{Client: c, Reader: c, Market: ledger, Peering: &peering.Consumer{Cluster: "rome"}})
	for _, step := range []struct {
		id   string
		at   time.Duration
		want []string
	}{
		{"ends", 0, []string{"closed"}},                       // now all others last longer; nobody else may offload "closed"
		{"ends", 2 * time.Hour, []string{"shared", "closed"}}, // "shares" has ended before
		{"keeps", 0, nil},
		{"keeps", 3 * time.Hour, []string{"work"}},
		{"elsewhere", 9 * time.Hour, []string{"work", "shared"}},
		{"plain", 9 * time.Hour, nil},
	} {
		got, err := b.Unoffloads(t.Context(), loans[step.id], market.At(now.Add(step.at)))
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("%s in %s: %v, %v; want %v", step.id, step.at, got, err, step.want)
		}
	}
}

package gate

import (
	"context"
	"crypto/rand"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// stall is a broker that counts what is published.
type stall struct {
	transport.Broker
	published int
}

func (s *stall) Publish(context.Context, string, string) error { s.published++; return nil }
func (s *stall) Withdraw(context.Context, string) error        { return nil }

// What the broker does not say about is neither published nor forgotten; where nothing is shown, it is published.
func TestPublishesNothingBeforeTheBrokerAnswers(t *testing.T) {
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Offer", Resource: "offers", Namespaced: true, Status: true},
	}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var broker stall
	shown := api.Errorf(api.CodeUnavailable, "no answer in time")
	o := NewOffers(OffersOptions{Client: c, Cluster: "milan", Namespace: "bourse", Key: key, Broker: &broker,
		Market: exchangetest.Open(t, nil, exchange.Options{Self: "milan"}), Engine: match.New(),
		Changed: &kubeobject.Trigger{},
		Shown:   func(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error) { return nil, shown }})
	offer := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "small"},
		Spec: api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: transporttest.CPU("2")}}}}
	if err := c.Create(t.Context(), offer); err != nil {
		t.Fatal(err)
	}
	looks := func(when string, published int, reason string, again bool) {
		t.Helper()
		got, err := o.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(offer)})
		var now api.Offer
		if failed := c.Get(t.Context(), client.ObjectKeyFromObject(offer), &now); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		ready := now.Status.Conditions[0]
		if broker.published != published || ready.Reason != reason || got.RequeueAfter > 0 != again {
			t.Errorf("%s: published %d times, %+v, again in %s", when, broker.published, ready, got.RequeueAfter)
		}
	}
	looks("at first", 1, "OnSale", false)
	o.Compare(api.SellerOffers{Cluster: "milan"})
	looks("no answer", 1, string(api.CodeUnavailable), true)
	looks("still no answer", 1, string(api.CodeUnavailable), true)
	shown = api.Errorf(api.CodeNotFound, "no broker shows what this cluster sells")
	looks("shown nowhere", 2, "OnSale", false)

	draft := func(is bool) {
		t.Helper()
		change := offer.DeepCopy()
		change.Spec.Draft = is
		if err := c.Patch(t.Context(), change, client.MergeFrom(offer)); err != nil {
			t.Fatal(err)
		}
		offer = change
	}
	shown = api.Errorf(api.CodeUnavailable, "it must not be asked")
	draft(true)
	looks("withdrawn by its admin", 2, "Draft", false)
	o.Compare(api.SellerOffers{Cluster: "milan"})
	draft(false)
	looks("made again", 3, "OnSale", false)
}

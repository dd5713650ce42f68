package gate

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
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
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// lagging reads an old copy of an Offer, unless it has none.
type lagging struct {
	client.Client
	old *api.Offer
	// lost makes the answer to the next write of a status get lost: the write came through.
	lost bool
}

func (l *lagging) Status() client.SubResourceWriter { return &losing{l.Client.Status(), l} }

// losing writes statuses, of which the answer to one may get lost.
type losing struct {
	client.SubResourceWriter
	of *lagging
}

func (l *losing) Apply(ctx context.Context, o runtime.ApplyConfiguration, how ...client.SubResourceApplyOption) error {
	err := l.SubResourceWriter.Apply(ctx, o, how...)
	if l.of.lost {
		l.of.lost, err = false, context.DeadlineExceeded
	}
	return err
}

func (l *lagging) Get(ctx context.Context, at client.ObjectKey, o client.Object, how ...client.GetOption) error {
	if l.old == nil {
		return l.Client.Get(ctx, at, o, how...)
	}
	l.old.DeepCopyInto(o.(*api.Offer))
	return nil
}

// An admin publishes an offer again by an annotation, each time with another time. Each is answered.
func TestPublishedAgainByAnnotation(t *testing.T) {
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
	reads, recorder := &lagging{Client: c}, events.NewFakeRecorder(100)
	o := NewOffers(OffersOptions{Client: reads, Cluster: "milan", Namespace: "bourse", Key: key, Broker: &stall{},
		Market: exchangetest.Open(t, nil, exchange.Options{Self: "milan"}), Engine: match.New(),
		Changed: &kubeobject.Trigger{}, Events: recorder,
		Shown: func(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error) { return nil, nil }})
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "small"},
		Spec: api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: transporttest.CPU("2")}}}}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	// looks returns what the object shows once the agent has looked at it.
	looks := func() (ready string, answer metav1.Condition) {
		t.Helper()
		at := client.ObjectKeyFromObject(object)
		if _, err := o.Reconcile(t.Context(), ctrl.Request{NamespacedName: at}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), at, object); err != nil {
			t.Fatal(err)
		}
		if found := meta.FindStatusCondition(object.Status.Conditions, api.ConditionPublishedAgain); found != nil {
			answer = *found
		}
		return meta.FindStatusCondition(object.Status.Conditions, api.ConditionReady).Reason, answer
	}
	says := func(value, ready, reason string) {
		t.Helper()
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, "bourse.dev/publish-again", value)
		if err := c.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		isReady, answer := looks()
		if isReady != ready || answer.Reason != reason || !strings.Contains(answer.Message, value) ||
			!strings.Contains(object.Status.Answered["publish-again"], value) {
			t.Errorf("%s: it is %s, and the answer %+v", value, isReady, answer)
		}
		if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, value) {
			t.Errorf("%s: %d more Events tell it", value, len(recorder.Events))
		}
	}
	offSale := func(when string) {
		t.Helper()
		o.Compare(api.SellerOffers{Cluster: "milan"})
		if ready, _ := looks(); ready != api.ReasonOffSaleAtBroker {
			t.Errorf("%s: it is %s", when, ready)
		}
	}
	if ready, answer := looks(); ready != "OnSale" || answer.Type != "" {
		t.Fatalf("at first it is %s, %+v", ready, answer)
	}
	offSale("the broker took it off sale")
	says("true", api.ReasonOffSaleAtBroker, "Invalid")
	const first = "2026-11-29T22:00:00Z"
	before := object.DeepCopy()
	says(first, "OnSale", "PublishedAgain")
	offSale("once more, with a time that was answered")
	before.Annotations = map[string]string{"bourse.dev/publish-again": first}
	reads.old = before
	offSale("an old copy lacks the answer")
	reads.old = nil
	if ready, _ := looks(); ready != api.ReasonOffSaleAtBroker || len(recorder.Events) > 0 {
		t.Error("the old copy is answered")
	}
	says("2026-11-29T23:00:00+01:00", "OnSale", "PublishedAgain")
	offSale("before the answer to a write is lost")
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, "bourse.dev/publish-again", "2026-11-29T23:30:00Z")
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	reads.lost = true
	_, err = o.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	if err == nil || reads.lost {
		t.Fatalf("no answer was lost: %v", err)
	}
	if ready, _ := looks(); ready != "OnSale" {
		t.Errorf("after an answer was lost it is %s", ready)
	}
	object.Spec.Draft = true
	says("2026-11-30T00:00:00Z", "Draft", "Forbidden")
	object.Spec.Draft = false
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	looks()
	offSale("a draft's time is answered")
}

package gate

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Offers is the controller of Offers: it signs what this cluster sells, remembers it in the Ledger, by which the gate sells, and
// publishes it.
type Offers struct{ OffersOptions }

// OffersOptions say what sells, and where.
type OffersOptions struct {
	client.Client
	// Cluster is the seller, and Key its key. Offers of other namespaces than Namespace do not count.
	Cluster, Namespace string
	Key                *clusterkey.Key
	Market             *exchange.Exchange
	// Engine checks the expressions of offers.
	Engine *match.Engine
	// Broker publishes at all brokers.
	Broker transport.Broker
	// Changed receives the names of offers to look at again.
	Changed *kubeobject.Trigger
}

// NewOffers returns the controller of Offers.
func NewOffers(o OffersOptions) *Offers { return &Offers{o} }

// unpublished is how soon an offer that the broker could not take is published again.
const unpublished = 10 * time.Second

// Look looks at an offer again.
func (o *Offers) Look(name string) { o.Changed.Add(o.Namespace, name) }

// LookAtAll looks again at all that is on sale here, and at what the broker has of it: at the start, and when the broker is back.
func (o *Offers) LookAtAll(ctx context.Context) {
	names := map[string]bool{}
	_ = o.Market.Read(ctx, func(s *market.State) {
		for _, offer := range s.Offers() {
			if offer.OnSale {
				names[offer.Signed.Name] = true
			}
		}
	})
	listed, _ := o.Broker.Catalog(ctx, api.CatalogQuery{Seller: o.Cluster}) // of several, those that answer
	for _, offer := range listed {
		names[offer.Payload.Name] = true
	}
	for name := range names {
		o.Look(name)
	}
}

// Reconcile puts an Offer on sale, or takes it off.
func (o *Offers) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	if at.Namespace != o.Namespace {
		return ctrl.Result{}, nil
	}
	var object api.Offer
	err := o.Get(ctx, at.NamespacedName, &object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if gone := apierrors.IsNotFound(err); gone || object.DeletionTimestamp != nil || object.Spec.Draft {
		again := o.withdraw(ctx, at.Name)
		if gone {
			return ctrl.Result{RequeueAfter: again}, nil
		}
		return ctrl.Result{RequeueAfter: again}, o.show(ctx, &object, nil, "Draft", "it is a draft: set draft to false to put it on sale")
	}
	offer, err := o.sell(ctx, &object)
	if err != nil {
		if code := api.CodeOf(err); code != api.CodeInternal {
			return ctrl.Result{}, o.show(ctx, &object, o.onSale(ctx, at.Name), string(code), "what it says is not on sale: "+trust.Text(err.Error()))
		}
		return ctrl.Result{}, err
	}
	if err := o.Broker.Publish(ctx, at.Name, offer.Document); err != nil {
		reason, why := string(api.CodeOf(err)), "on sale here, but the broker could not be told: "+trust.Text(err.Error())
		return ctrl.Result{RequeueAfter: unpublished}, o.show(ctx, &object, offer, reason, why)
	}
	return ctrl.Result{}, o.show(ctx, &object, offer, "", "on sale")
}

// sell makes what the object says what is on sale. What is on sale already is not signed again.
func (o *Offers) sell(ctx context.Context, object *api.Offer) (*market.Offer, error) {
	known := o.onSale(ctx, object.Name)
	if known != nil && equality.Semantic.DeepEqual(known.Signed.Offer, object.Spec) {
		if _, err := trust.Offer(known.Document, o.Key.Public()); err == nil {
			return known, nil
		}
	}
	if err := o.Engine.CheckAccept(object.Spec.Accept); err != nil {
		return nil, err
	}
	version := o.Market.Now().Go().UnixMilli()
	if known != nil {
		version = max(version, known.Signed.Version+1)
	}
	document, err := o.Key.Sign(api.DocumentOffer, api.SignedOffer{Protocol: api.Protocol, Seller: o.Cluster, Name: object.Name, Version: version, Offer: object.Spec})
	if err != nil {
		return nil, api.Invalid("spec", "it cannot be signed: %s", err)
	}
	offer, err := trust.Offer(document, o.Key.Public())
	if err != nil {
		return nil, err
	}
	out, err := o.Market.Do(ctx, market.Publish{Offer: offer})
	if err != nil {
		return nil, err
	}
	return out.Offer, nil
}

func (o *Offers) onSale(ctx context.Context, name string) (offer *market.Offer) {
	_ = o.Market.Read(ctx, func(s *market.State) { offer = s.OnSale(o.Cluster, name) })
	return offer
}

// withdraw takes an offer off sale, here first. It returns when to tell the broker again, 0 if it knows.
func (o *Offers) withdraw(ctx context.Context, name string) time.Duration {
	if _, err := o.Market.Do(ctx, market.Withdraw{Seller: o.Cluster, Name: name}); err != nil {
		return unpublished
	}
	if err := o.Broker.Withdraw(ctx, name); err != nil {
		return unpublished
	}
	return 0
}

// show writes what of an Offer is on sale, nil if nothing; reason is empty where all is well.
func (o *Offers) show(ctx context.Context, object *api.Offer, offer *market.Offer, reason, message string) error {
	status := object.Status.DeepCopy()
	status.Version, status.Digest, status.Sold = 0, "", nil
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "OnSale", Message: message, ObservedGeneration: object.Generation}
	if reason != "" {
		ready.Status, ready.Reason = metav1.ConditionFalse, reason
	}
	if offer != nil {
		status.Version, status.Digest = offer.Signed.Version, offer.Digest
		if l := o.Market.View().Listing(o.Cluster); l != nil {
			status.Sold = l.SoldOf(offer)
		}
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(object.Status, *status) {
		return nil
	}
	object.Status = *status
	return kubeobject.SoleStatus(o.Client).Apply(ctx, object)
}

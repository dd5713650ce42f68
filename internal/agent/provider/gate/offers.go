package gate

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Offers is the controller of Offers. It signs what this cluster sells, keeps that in the Ledger,
// from which the gate sells, and publishes it at the brokers.
type Offers struct {
	OffersOptions
	offSale offSale
}

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
	Broker interface {
		Publish(ctx context.Context, name, signed string) error
		Withdraw(ctx context.Context, name string) error
		Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error)
	}
	// Shown returns what the brokers show at which the SharingPolicy shows offers, without this cluster's connector.
	Shown func(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error)
	// Changed receives the names of offers to look at again. The empty name stands for all of them.
	Changed *kubeobject.Trigger
	// Events receives each answer to an annotation. May be nil.
	Events events.EventRecorder
}

// NewOffers returns the controller of Offers.
func NewOffers(o OffersOptions) *Offers { return &Offers{OffersOptions: o} }

// publishRetry is how long until an offer that a broker could not take is published again.
const publishRetry = 10 * time.Second

// listWithin bounds how long a broker may take to list what this cluster sells there.
const listWithin = 20 * time.Second

// Look makes the controller look at an offer again.
func (o *Offers) Look(name string) { o.Changed.Add(o.Namespace, name) }

// LookAgain makes the controller look at all offers. Call it when a broker is back. It does not wait.
func (o *Offers) LookAgain() { o.Look("") }

// lookAtAll makes the controller look at all offers that are on sale here or at a broker.
func (o *Offers) lookAtAll(ctx context.Context) {
	_ = o.Market.Read(ctx, func(s *market.State) {
		for _, offer := range s.Offers() {
			if offer.OnSale {
				o.Look(offer.Signed.Name)
			}
		}
	})
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	listed, _ := o.Broker.Catalog(ctx, api.CatalogQuery{Seller: o.Cluster}) // of those brokers that answer
	for _, offer := range listed {
		o.Look(offer.Payload.Name)
	}
}

// Control starts the controller of Offers, which looks at all of them first. A broker that is slow
// to list what it shows does not hold up the others.
func (o *Offers) Control(m ctrl.Manager) error {
	o.LookAgain()
	return ctrl.NewControllerManagedBy(m).Named("offer").For(&api.Offer{}).WatchesRawSource(o.Changed).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).Complete(o)
}

// Reconcile puts an Offer on sale, or withdraws it.
func (o *Offers) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Namespace != o.Namespace {
		return ctrl.Result{}, nil
	}
	if request.Name == "" {
		o.lookAtAll(ctx)
		return ctrl.Result{}, nil
	}
	var object api.Offer
	err := o.Get(ctx, request.NamespacedName, &object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	again, expired, failed := o.expire(ctx, &object)
	if expired || failed != nil {
		return ctrl.Result{}, failed
	}
	if isOld, err := o.answer(ctx, &object); isOld || err != nil {
		return ctrl.Result{}, err
	}
	result, err := o.publish(ctx, request.Name, &object, apierrors.IsNotFound(err))
	if result.RequeueAfter == 0 {
		result.RequeueAfter = again
	}
	return result, err
}

// publish puts an Offer on sale, or withdraws it if it is gone.
func (o *Offers) publish(ctx context.Context, name string, object *api.Offer, gone bool) (ctrl.Result, error) {
	if gone || object.DeletionTimestamp != nil || object.Spec.Draft {
		o.offSale.forget(name)
		again := o.withdraw(ctx, name)
		if gone {
			return ctrl.Result{RequeueAfter: again}, nil
		}
		return ctrl.Result{RequeueAfter: again}, o.show(ctx, object, nil, "Draft",
			"it is a draft: set draft to false to put it on sale")
	}
	offer, err := o.sell(ctx, object)
	if err != nil {
		if code := api.CodeOf(err); code != api.CodeInternal {
			return ctrl.Result{}, o.show(ctx, object, o.onSale(ctx, name), string(code),
				"it is not on sale as written: "+trust.Text(err.Error()))
		}
		return ctrl.Result{}, err
	}
	isOffSale, err := o.isOffSale(ctx, offer)
	if isOffSale {
		return ctrl.Result{}, o.show(ctx, object, offer, api.ReasonOffSaleAtBroker,
			"on sale here, but a program of this cluster took it off sale at the broker: to put it on sale there again, run: "+
				"bourse offer publish "+name+"; or: "+PublishAgain.Command(object, act.Now))
	}
	if err == nil {
		err = o.Broker.Publish(ctx, name, offer.Document)
	}
	if err != nil {
		reason, why := string(api.CodeOf(err)), "on sale here, but not published at the broker: "+trust.Text(err.Error())
		return ctrl.Result{RequeueAfter: publishRetry}, o.show(ctx, object, offer, reason, why)
	}
	o.offSale.recordPublished(name)
	return ctrl.Result{}, o.show(ctx, object, offer, "", "on sale")
}

// sell puts what the object says on sale. It signs nothing again that is on sale already.
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
	document, err := o.Key.Sign(api.DocumentOffer, api.SignedOffer{
		Protocol: api.Protocol, Seller: o.Cluster, Name: object.Name, Version: version, Offer: object.Spec,
	})
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

// onSale returns the offer of a name that is on sale, nil if none is.
func (o *Offers) onSale(ctx context.Context, name string) (offer *market.Offer) {
	_ = o.Market.Read(ctx, func(s *market.State) { offer = s.OnSale(o.Cluster, name) })
	return offer
}

// withdraw takes an offer off sale, here first. It returns when to call the brokers again, 0 if they know.
func (o *Offers) withdraw(ctx context.Context, name string) time.Duration {
	if _, err := o.Market.Do(ctx, market.Withdraw{Seller: o.Cluster, Name: name}); err != nil {
		return publishRetry
	}
	if err := o.Broker.Withdraw(ctx, name); err != nil {
		return publishRetry
	}
	return 0
}

// show writes the status of an Offer. offer is what is on sale, nil if nothing; reason is empty if
// it is on sale as written.
func (o *Offers) show(ctx context.Context, object *api.Offer, offer *market.Offer, reason, message string) error {
	status := object.Status.DeepCopy()
	status.Version, status.Digest, status.Sold = 0, "", nil
	ready := metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "OnSale",
		Message: message, ObservedGeneration: object.Generation,
	}
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
	return kubeobject.ShowStatus(ctx, o.Client, object, &object.Status, *status)
}

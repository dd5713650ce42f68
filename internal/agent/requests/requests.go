package requests

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ConfirmAnnotation on a ResourceRequest whose spec says confirm, with value "true", confirms it.
const ConfirmAnnotation = "bourse.dev/confirm"

// retryAfter is when a request is tried again that the broker could not take now.
const retryAfter = 5 * time.Second

// Controller is the controller of ResourceRequests.
type Controller struct{ Options }

// Options say for which cluster a Controller acts, and by what.
type Options struct {
	client.Client
	Cluster string
	Market  *exchange.Exchange
	// Borrower is who asks for a request, or goes on with what has become of it (nil: nothing yet). Errors: Unavailable where
	// nobody can be asked now.
	Borrower func(ctx context.Context, broker string, r api.Request, ours *market.Reservation) (*Borrower, error)
	Events   events.EventRecorder
	// Forgotten says whether the broker of a reservation no longer knows it, because it was restored from a backup; nil: none does.
	Forgotten func(*market.Reservation) bool
	// Volumes reads PersistentVolumeClaims; nil: nothing is offloaded here.
	Volumes client.Reader
	// Changed makes this controller, which watches it, look at a request again.
	Changed *kubeobject.Trigger
	// Passing is for how long a hold that its provider is asked about is not shown: mostly the answer comes at once.
	Passing time.Duration
}

// New returns the controller of ResourceRequests.
func New(o Options) *Controller { return &Controller{o} }

// Reconcile makes the reservation of a request, ends it when the request is gone, and shows
// what became of it.
func (r *Controller) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var object api.ResourceRequest
	err := r.Get(ctx, at.NamespacedName, &object)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	there := err == nil && object.DeletionTimestamp == nil
	parts, err := r.records(ctx, at, string(object.UID), there)
	if err != nil || !there {
		return ctrl.Result{}, err
	}
	ours := lead(parts)
	if ours == nil && object.Status.Reservation != "" && object.Status.State.Over() {
		return ctrl.Result{}, nil // over for so long that the Ledger has forgotten it
	}
	wish := WishOf(&object)
	if ours != nil {
		wish.Reservation = ours.ID
	}
	borrower, err := r.Borrower(ctx, object.Spec.Broker, wish.Request, ours)
	if err != nil && ours == nil {
		return r.failed(ctx, &object, err)
	}
	if err != nil {
		return ctrl.Result{RequeueAfter: retryAfter}, r.show(ctx, &object, parts, nil)
	}
	anew := ours == nil || ours.State == api.Pending && len(ours.Group) == 0 && r.Forgotten != nil && r.Forgotten(ours)
	if anew {
		if err := object.Spec.Offload.Check(r.Cluster); err != nil {
			return r.failed(ctx, &object, err)
		}
		if wish.Request.StickTo, err = r.StickTo(ctx, &object); err != nil {
			return r.failed(ctx, &object, err)
		}
	}
	if anew || lacks(parts, wish) && !broken(parts) || slices.ContainsFunc(parts, unconfirmed) && wish.Confirmed {
		if err := borrower.Ask(ctx, wish); err != nil {
			return r.failed(ctx, &object, err)
		}
		if parts, err = r.records(ctx, at, string(object.UID), true); err != nil || len(parts) == 0 {
			return ctrl.Result{}, err
		}
		ours = lead(parts)
	}
	if broken(parts) {
		for _, part := range parts {
			if err := borrower.End(ctx, part); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if wait := r.passes(ours); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if !ours.Bound() || len(ours.Group) > 0 {
		return ctrl.Result{}, r.show(ctx, &object, parts, unchanged(parts, wish))
	}
	again, cannot := borrower.Change(ctx, ours, wish)
	if cannot != nil && api.CodeOf(cannot) != api.CodeInvalid {
		again = retryAfter
	}
	if parts, err = r.records(ctx, at, string(object.UID), true); err != nil || len(parts) == 0 {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, r.show(ctx, &object, parts, cannot)
}

// lead is the first of the parts of a request, or the one that it is; nil: it has none yet.
func lead(parts []*market.Reservation) *market.Reservation {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// passes is for how long a reservation may still pass as it is without being shown.
func (r *Controller) passes(ours *market.Reservation) time.Duration {
	if ours.State != api.Held || ours.Assignment == "" || ours.AwaitsApproval() {
		return 0
	}
	return r.Passing - r.Market.Now().Go().Sub(ours.Changed.Go())
}

// unconfirmed says whether a reservation is held and not signed.
func unconfirmed(r *market.Reservation) bool { return r.State == api.Held && r.Assignment == "" }

// WishOf is what an object asks for.
func WishOf(o *api.ResourceRequest) Wish {
	return Wish{
		Object:    market.Object{Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)},
		Request:   o.Spec.Request,
		Confirmed: o.Annotations[ConfirmAnnotation] == "true", Reservation: o.Status.Reservation,
	}
}

// Look makes the controller look again at the request of a reservation, and returns what the request asks for. It returns
// nil when the request is gone. Errors: those of the API server.
func (r *Controller) Look(ctx context.Context, ours *market.Reservation) (*Wish, error) {
	if ours.Object == nil {
		return nil, nil
	}
	var object api.ResourceRequest
	r.Changed.Add(ours.Object.Namespace, ours.Object.Name)
	err := r.Get(ctx, client.ObjectKey{Namespace: ours.Object.Namespace, Name: ours.Object.Name}, &object)
	if client.IgnoreNotFound(err) != nil {
		return nil, kubeobject.Error(err)
	}
	if err != nil || string(object.UID) != ours.Object.UID || object.DeletionTimestamp != nil {
		return nil, nil
	}
	wish := WishOf(&object)
	return &wish, nil
}

// records returns the record of the object that is there now, or those of its parts, and ends those of objects of the same name
// that are gone: this is the observed deletion.
func (r *Controller) records(ctx context.Context, at ctrl.Request, uid string, there bool) ([]*market.Reservation, error) {
	var ours []*market.Reservation
	var gone []*market.Reservation
	err := r.Market.Read(ctx, func(s *market.State) {
		for _, record := range s.Of(r.Cluster, 0) {
			o := record.Object
			switch {
			case o == nil || o.Namespace != at.Namespace || o.Name != at.Name:
			case there && o.UID == uid:
				ours = append(ours, record)
			default:
				gone = append(gone, record)
			}
		}
	})
	slices.SortStableFunc(ours, func(a, b *market.Reservation) int {
		return cmp.Compare(slices.Index(a.Group, a.ID), slices.Index(b.Group, b.ID))
	})
	if n := len(ours); n > 1 && len(ours[n-1].Group) == 0 { // the newest of the only one that there is to be
		ours = ours[n-1:]
	}
	for _, record := range gone {
		if err == nil {
			err = r.end(ctx, record)
		}
	}
	return ours, err
}

// end ends what a request that is gone has become: by whom it was asked for is told in time.
func (r *Controller) end(ctx context.Context, record *market.Reservation) error {
	borrower, err := r.Borrower(ctx, "", api.Request{}, nil)
	if err != nil {
		return err
	}
	return borrower.End(ctx, record)
}

// failed shows why a request got no answer, and says whether to ask again.
func (r *Controller) failed(ctx context.Context, object *api.ResourceRequest, cause error) (ctrl.Result, error) {
	code := api.CodeOf(cause)
	status := object.Status.DeepCopy()
	status.Message = trust.Text(cause.Error())
	for _, condition := range []string{api.ConditionReserved, api.ConditionReady} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionFalse, Reason: string(code), Message: status.Message, ObservedGeneration: object.Generation,
		})
	}
	if err := r.update(ctx, object, *status, corev1.EventTypeWarning, string(code)); err != nil {
		return ctrl.Result{}, err
	}
	switch code {
	case api.CodeInvalid, api.CodeTooLarge, api.CodeKeyReused:
		return ctrl.Result{}, nil // only another object can help
	default:
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
}

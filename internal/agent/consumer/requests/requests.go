package requests

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/turns"
)

// retryAfter is how long until a request is tried again that the broker could not take.
const retryAfter = 5 * time.Second

// workers is how many requests are served at a time. No two serve the same one, and each writes only what is of
// its request. What all use is for several goroutines: the Ledger, the sessions with brokers and sellers, and
// Offloading. At most atOnePlace of them are at one broker or seller: nineteen that do not answer leave some.
const workers, atOnePlace = 20 * atOnePlace, 8

// unanswered is how many requests of one namespace at one broker wait for the answer of a provider at a time. One that
// is not answered within answerWithin passes its turn to the next: that may have a provider that answers.
const unanswered, answerWithin = 4, 5 * time.Second

// Controller is the controller of ResourceRequests.
type Controller struct {
	Options
	order *turns.Queue[ctrl.Request]         // of the requests that wait for a worker
	slots *turns.Slots[string, ctrl.Request] // at brokers and sellers, by Via
	holds *turns.Slots[string, ctrl.Request] // of requests that no provider has answered, by namespace and Via
	ends  *turns.Slots[string, ctrl.Request] // of deleted requests, one for each namespace that they offload
}

// Options say for which cluster a Controller acts, and through what.
type Options struct {
	client.Client
	// Market is that of the Ledger. Its clock is the controller's.
	Market *exchange.Exchange
	// Borrower is for reservations at the main broker.
	Borrower *Borrower
	// Places are the brokers and sellers. Nil: only the main broker.
	Places Places
	// Events receives an Event for each new state or message of a request.
	Events events.EventRecorder
	// Forgotten reports whether the broker of a reservation lost it, because it was restored from a
	// backup. Nil: none did.
	Forgotten func(*market.Reservation) bool
	// Volumes reads PersistentVolumeClaims. Nil: nothing is offloaded here.
	Volumes client.Reader
	// Offloading offloads namespaces. Nil: nothing is offloaded here.
	Offloading Offloading
	// Changed makes this controller, which watches it, look at a request again.
	Changed *kubeobject.Trigger
	// Passing is how long the status does not show that a provider is asked: mostly it answers at once.
	Passing time.Duration
}

// Places are the brokers and sellers where requests are made. Each is named by its Via, as in reservations.
type Places interface {
	// Choose returns where to make a request, or to go on with its reservation (record, nil if there is none yet):
	// the Via, and the broker there. It may call a seller. Errors: Unavailable if no broker or seller can be reached.
	Choose(
		ctx context.Context, r api.ResourceRequestSpec, record *market.Reservation,
	) (via string, broker transport.Broker, err error)
	// Find returns the Via that Choose tries first, and whether Choose calls a seller there. It calls nobody.
	Find(ctx context.Context, r api.ResourceRequestSpec, record *market.Reservation) (via string, calls bool)
	// Count returns how many there are.
	Count() int
}

// New returns the controller of ResourceRequests.
func New(o Options) *Controller {
	r := &Controller{Options: o}
	r.order = turns.New(r.turnOf)
	r.slots, r.holds, r.ends = r.newSlots(), r.newHolds(), r.newEnds()
	return r
}

// Control starts the controller.
func (r *Controller) Control(m ctrl.Manager) error {
	if err := r.controlWaiting(m); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("resourcerequest").For(&api.ResourceRequest{}).
		Owns(&api.ReservationInstruction{}). // whether its namespaces are offloaded
		WithOptions(controller.Options{NewQueue: r.order.NewQueue, MaxConcurrentReconciles: workers}).
		WatchesRawSource(r.Changed).Complete(r)
}

// Reconcile makes the reservation of a request, changes it with the request, ends it when the
// request is gone, and shows its state.
func (r *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	if errors.Is(err, errWaits) { // it comes again once it has a slot
		return ctrl.Result{}, nil
	}
	r.slots.Keep(request)
	r.ends.Keep(request)
	if err != nil { // it may be tried again much later
		r.holds.Keep(request)
		return result, err
	}
	result.RequeueAfter = soonest(result.RequeueAfter, r.keepHold(ctx, request))
	return result, nil
}

func (r *Controller) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object api.ResourceRequest
	err := r.Get(ctx, request.NamespacedName, &object)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	there := err == nil && object.DeletionTimestamp == nil
	if err == nil && !there {
		return r.finish(ctx, request, &object)
	}
	parts, err := r.readRecords(ctx, request, string(object.UID))
	if err != nil {
		return ctrl.Result{}, err
	}
	record := firstPart(parts)
	if r.Offloading != nil && (!there || object.Spec.Offload != nil && (record == nil || !record.Bound())) {
		if err := r.Offloading.Offload(ctx); err != nil { // before there is a provider, for pods that are made by then
			return ctrl.Result{}, err
		}
	}
	if !there {
		return ctrl.Result{}, nil
	}
	if record == nil && object.Status.Reservation != "" && isShownOver(&object) {
		return ctrl.Result{}, nil // over for so long that the Ledger forgot it
	}
	unbound := endedUnbound(&object, parts)
	if unbound && r.untilAgain(parts) > 0 {
		return r.showUnbound(ctx, &object, parts)
	}
	if err := r.guardVolumes(ctx, &object); err != nil {
		return ctrl.Result{}, err
	}
	wish := r.makeWish(&object)
	switch {
	case unbound: // it asks as if it had none
		wish.Reservation, record = "", nil
	case record != nil:
		wish.Reservation = record.ID
	}
	asksFirst := record == nil || record.State == api.Pending &&
		len(record.Group) == 0 && r.Forgotten != nil && r.Forgotten(record)
	asks := asksFirst || !isBroken(parts) &&
		(needsAsking(parts, wish) || slices.ContainsFunc(parts, r.Borrower.isUnsent)) ||
		slices.ContainsFunc(parts, isUnconfirmed) && wish.Confirmed
	if !r.takeSlot(ctx, &object, record, asksFirst, asks) {
		return ctrl.Result{}, errWaits
	}
	borrower, err := r.choose(ctx, object.Spec, record)
	if err != nil && record == nil {
		return r.showFailure(ctx, &object, err)
	}
	if err != nil {
		return ctrl.Result{RequeueAfter: retryAfter}, r.showState(ctx, &object, parts, nil)
	}
	if asksFirst {
		if err := r.CheckOffload(ctx, object.Namespace, object.Spec.Offload); err != nil {
			return r.showFailure(ctx, &object, err)
		}
		if wish.Request.StickTo, err = r.FindStickTo(ctx, &object); err != nil {
			return r.showFailure(ctx, &object, err)
		}
	}
	if asks {
		if err := r.ask(ctx, borrower, &object, record, wish); err != nil {
			return r.showFailure(ctx, &object, err)
		}
		if parts, err = r.readRecords(ctx, request, string(object.UID)); err != nil || len(parts) == 0 {
			return ctrl.Result{}, err
		}
		record = firstPart(parts)
	}
	if isBroken(parts) {
		for _, part := range parts {
			if err := borrower.End(ctx, part); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if endedUnbound(&object, parts) {
		return r.showUnbound(ctx, &object, parts)
	}
	if wait := r.hideFor(record); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if !record.Bound() || len(record.Group) > 0 {
		err := r.showState(ctx, &object, parts, checkUnchanged(parts, wish))
		return ctrl.Result{RequeueAfter: r.nextWarning(&object, parts)}, err
	}
	again, cannot := borrower.Change(ctx, record, wish)
	if cannot != nil && api.CodeOf(cannot) != api.CodeInvalid {
		again = retryAfter
	}
	if parts, err = r.readRecords(ctx, request, string(object.UID)); err != nil || len(parts) == 0 {
		return ctrl.Result{}, err
	}
	again = soonest(again, r.nextWarning(&object, parts))
	return ctrl.Result{RequeueAfter: again}, r.showState(ctx, &object, parts, cannot)
}

// firstPart returns the first part of a request, nil if it has none. A request that is not split has one.
func firstPart(parts []*market.Reservation) *market.Reservation {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// hideFor returns how long the status need not show the state of a reservation yet.
func (r *Controller) hideFor(record *market.Reservation) time.Duration {
	if record.State != api.Held || record.Assignment == "" || record.AwaitsApproval() {
		return 0
	}
	return r.Passing - r.Market.Now().Go().Sub(record.Changed.Go())
}

// isUnconfirmed reports whether a reservation is held and not signed.
func isUnconfirmed(r *market.Reservation) bool { return r.State == api.Held && r.Assignment == "" }

// Look makes the controller look again at the request of a reservation, and returns what the
// request asks for, nil if the request is gone. Errors: those of the API server.
func (r *Controller) Look(ctx context.Context, record *market.Reservation) (*Wish, error) {
	if record.Object == nil {
		return nil, nil
	}
	var object api.ResourceRequest
	r.Changed.Add(record.Object.Namespace, record.Object.Name)
	err := r.Get(ctx, client.ObjectKey{Namespace: record.Object.Namespace, Name: record.Object.Name}, &object)
	if client.IgnoreNotFound(err) != nil {
		return nil, kubeobject.Error(err)
	}
	if err != nil || string(object.UID) != record.Object.UID || object.DeletionTimestamp != nil {
		return nil, nil
	}
	wish := r.makeWish(&object)
	return &wish, nil
}

// readRecords returns the Ledger's records of the parts of an object; an empty uid: it is deleted. It
// ends the reservations of deleted objects that had the same name.
func (r *Controller) readRecords(
	ctx context.Context, request ctrl.Request, uid string,
) ([]*market.Reservation, error) {
	records, gone, err := r.findRecords(ctx, request.Namespace, request.Name, uid)
	for _, record := range gone {
		if err == nil {
			err = r.Borrower.End(ctx, record) // Sync sends that to the broker where it was made
		}
	}
	return records, err
}

// findRecords returns the Ledger's records of the parts of an object, and those of other objects
// that had its name.
func (r *Controller) findRecords(
	ctx context.Context, namespace, name, uid string,
) (records, gone []*market.Reservation, err error) {
	made, err := r.Market.Made(ctx, namespace, name)
	for _, record := range made {
		if uid != "" && record.Object.UID == uid {
			records = append(records, record)
		} else {
			gone = append(gone, record)
		}
	}
	records = newest(records)
	slices.SortStableFunc(records, func(a, b *market.Reservation) int {
		return cmp.Compare(slices.Index(a.Group, a.ID), slices.Index(b.Group, b.ID))
	})
	return records, gone, err
}

// choose returns the borrower at the broker that Places.Choose returns.
func (r *Controller) choose(
	ctx context.Context, asked api.ResourceRequestSpec, record *market.Reservation,
) (*Borrower, error) {
	if r.Places == nil {
		return r.Borrower, nil
	}
	via, broker, err := r.Places.Choose(ctx, asked, record)
	if broker == nil {
		return nil, err
	}
	return r.Borrower.At(via, broker), err
}

package requests

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/turns"
)

// turnOf returns the turn of a request. It reads the manager's cache, and waits one second at most for one that is
// not filled yet.
func (r *Controller) turnOf(request ctrl.Request) turns.Turn {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var object api.ResourceRequest
	err := r.Get(ctx, request.NamespacedName, &object)
	return turns.Turn{
		Party: request.Namespace, Ends: apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil,
	}
}

// errWaits says that a request waits for a slot: of its broker or seller, or of a namespace.
var errWaits = errors.New("the request waits for its turn")

// newSlots returns the slots of brokers and sellers, by Via.
func (r *Controller) newSlots() *turns.Slots[string, ctrl.Request] {
	count := func() int { return 1 }
	if r.Places != nil {
		count = r.Places.Count
	}
	return r.makeSlots(workers, atOnePlace, count)
}

// makeSlots makes slots for which requests wait in their turn.
func (r *Controller) makeSlots(workers, most int, places func() int) *turns.Slots[string, ctrl.Request] {
	return turns.NewSlots[string](turns.SlotsOptions[ctrl.Request]{
		Workers: workers, Most: most, Places: places, Find: r.turnOf,
		Again: func(request ctrl.Request) { r.Changed.Add(request.Namespace, request.Name) },
	})
}

// takeSlot takes a slot of the broker or seller that is called for a request, and, before it first asks there, one of
// newHolds. It returns false where the request has to wait for one. What calls nobody needs none.
func (r *Controller) takeSlot(
	ctx context.Context, object *api.ResourceRequest, record *market.Reservation, asksFirst, asks bool,
) bool {
	via, calls := "", false
	if r.Places != nil {
		via, calls = r.Places.Find(ctx, object.Spec, record)
	}
	changes := record != nil && record.Bound() && len(record.Group) == 0 && record.Changing() != nil
	if !asks && !changes && !calls {
		return true
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	if asksFirst {
		place := request.Namespace + "/" + via
		r.holds.Keep(request, place) // the request may have named another broker before
		if !r.holds.Take(place, request) {
			r.slots.Keep(request)
			return false
		}
	}
	r.slots.Keep(request, via)
	return r.slots.Take(via, request)
}

// newHolds returns the slots for requests that no provider has answered yet, by namespace and Via. A provider answers
// the holds of a cluster one after the other, so those of one namespace would keep those of all others waiting.
func (r *Controller) newHolds() *turns.Slots[string, ctrl.Request] {
	return r.makeSlots(unanswered, unanswered, func() int { return 1 })
}

// keepHold keeps the slot of a request in newHolds while the provider has not answered its hold, for answerWithin at
// most. It returns how long it is kept; 0 if it is not.
func (r *Controller) keepHold(ctx context.Context, request ctrl.Request) (wait time.Duration) {
	made, err := r.Market.Made(ctx, request.Namespace, request.Name)
	for _, record := range made {
		if record.State == api.Held && record.Assignment != "" && !record.AwaitsApproval() {
			wait = max(wait, answerWithin-r.Market.Now().Go().Sub(record.Changed.Go()))
		}
	}
	if err != nil || wait <= 0 {
		r.holds.Keep(request)
		return 0
	}
	return wait
}

// newEnds returns the slots of namespaces: two requests that keep each other's volumes in one do not end at once.
func (r *Controller) newEnds() *turns.Slots[string, ctrl.Request] {
	return r.makeSlots(1, 1, func() int { return 1 })
}

// takeEnds takes the slots of all namespaces that a deleted request offloads. It returns false where the request has
// to wait for one. Then it has none of the others: no two requests wait for each other.
func (r *Controller) takeEnds(object *api.ResourceRequest) bool {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	r.slots.Keep(request) // it calls no broker
	r.holds.Keep(request)
	if object.Spec.Offload == nil {
		return true
	}
	for _, name := range object.Spec.Offload.Namespaces {
		if !r.ends.Take(name, request) {
			r.ends.Keep(request, name)
			return false
		}
	}
	return true
}

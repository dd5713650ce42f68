package requests

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// mayAskAgain reports whether a request asks again after a reservation that was never bound. One that waits is
// queued again by the broker, one that a person confirms needs that person, and a VirtualNodePool asks elsewhere.
func mayAskAgain(o *api.ResourceRequest) bool {
	return o.Spec.Wait == nil && !o.Spec.Confirm && o.Labels[api.VirtualNodePoolLabel] == ""
}

// endedUnbound reports whether the reservation of a request ended before it was bound only because somebody was
// away: this agent, the provider's, or the broker. That passes, so the request asks again. What its status has
// shown as final stays so.
func endedUnbound(o *api.ResourceRequest, parts []*market.Reservation) bool {
	if len(parts) == 0 || isShownOver(o) || !mayAskAgain(o) ||
		slices.ContainsFunc(parts, func(r *market.Reservation) bool { return !r.State.Over() }) {
		return false
	}
	return slices.ContainsFunc(parts, func(r *market.Reservation) bool {
		return r.Acceptance == "" && (r.State == api.Expired || r.State == api.Failed && r.Reason == api.ReasonNoAnswer)
	})
}

// isShownOver reports whether the status of a request shows a final state.
func isShownOver(o *api.ResourceRequest) bool { return o.Status.State != "" && o.Status.State.Over() }

// ask makes the reservation of a request. known is the one that it has, nil for none. The key of each one follows
// from the one before, so that a repeat gets the first answer.
func (r *Controller) ask(
	ctx context.Context, b *Borrower, o *api.ResourceRequest, known *market.Reservation, w Wish,
) error {
	if mayAskAgain(o) {
		made, err := r.Market.Made(ctx, w.Object.Namespace, w.Object.Name)
		if err != nil {
			return err
		}
		for _, record := range made {
			if record.Object != nil && *record.Object == w.Object && record.State.Over() &&
				(known == nil || record.ID != known.ID && !slices.Contains(known.Group, record.ID)) {
				w.after = record.ID
			}
		}
	}
	return b.Ask(ctx, w)
}

// untilAgain returns how long a request waits before it asks again.
func (r *Controller) untilAgain(parts []*market.Reservation) time.Duration {
	ended := market.Time(0)
	for _, part := range parts {
		ended = max(ended, part.Changed)
	}
	return market.RetryTime - r.Market.Now().Go().Sub(ended.Go())
}

// showUnbound shows why a request asks again.
func (r *Controller) showUnbound(
	ctx context.Context, object *api.ResourceRequest, parts []*market.Reservation,
) (ctrl.Result, error) {
	silent := parts[max(0, slices.IndexFunc(parts, func(r *market.Reservation) bool {
		return r.Reason != api.ReasonPartFailed && r.Acceptance == ""
	}))]
	status := object.Status.DeepCopy()
	status.State, status.Reservation, status.Provider, status.Parts = "", silent.ID, "", nil
	status.Message = describe(silent) + "; the request asks again"
	for _, condition := range []string{api.ConditionReserved, api.ConditionReady} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionFalse, Reason: string(silent.Reason),
			Message: status.Message, ObservedGeneration: object.Generation,
		})
	}
	again := max(r.untilAgain(parts), time.Millisecond)
	return ctrl.Result{RequeueAfter: again},
		r.writeStatus(ctx, object, *status, corev1.EventTypeWarning, string(silent.Reason))
}

// newest returns, of the records of a request in the order of their last change, those of its last reservation,
// with all its parts if it is split.
func newest(all []*market.Reservation) []*market.Reservation {
	if len(all) < 2 {
		return all
	}
	last := all[len(all)-1]
	return slices.DeleteFunc(all, func(r *market.Reservation) bool {
		return r != last && (len(last.Group) == 0 || !slices.Equal(r.Group, last.Group))
	})
}

// nobodyAnswered reports whether a reservation failed because the last provider that was asked did not answer.
func nobodyAnswered(t api.Reservation) bool {
	return t.State == api.Failed && t.Reason == api.ReasonNotAccepted && len(t.Tried) > 0 &&
		t.Tried[len(t.Tried)-1].Reason == api.ReasonNoAnswer
}

// reserve makes the reservation of a wish. A repeat after a lost answer returns the first one. If the request was
// edited since, that is the reservation that its status names, and without one a new one.
func (b *Borrower) reserve(ctx context.Context, w Wish) (transport.Reservation, error) {
	shown, err := b.Broker.Reserve(ctx, w.key(), w.Request)
	switch {
	case api.CodeOf(err) != api.CodeKeyReused:
		return shown, err
	case w.Reservation != "":
		return b.Broker.Reservation(ctx, w.Reservation)
	}
	key, err := w.editedKey()
	if err != nil {
		return transport.Reservation{}, err
	}
	return b.Broker.Reserve(ctx, key, w.Request)
}

package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// overstaying are the reservations that have ended here and whose pods stay beyond the grace that they have to leave.
type overstaying struct {
	events events.EventRecorder
	mu     sync.Mutex
	ids    map[string]bool
}

// count is how many.
func (o *overstaying) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ids)
}

// set notes whether one does.
func (o *overstaying) set(id string, stays bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[string]bool{}
	}
	if o.ids[id] = true; !stays {
		delete(o.ids, id)
	}
}

// overstays says on the instruction of a reservation that ends whether its pods stay too long, in an Event when they begin to, and in
// the metric.
func (l *lend) overstays(ctx context.Context, ours *market.Reservation, used market.Amounts) error {
	now := l.market.Now().Go()
	stays := len(used) > 0 && now.Sub(ours.Changed.Go()) >= l.graces.shrink
	l.late.set(ours.ID, stays)
	var i api.ProviderInstruction
	if err := l.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: ours.ID}, &i); err != nil {
		return client.IgnoreNotFound(err)
	}
	c := metav1.Condition{Type: api.ConditionOverstaying, Status: metav1.ConditionFalse, Reason: "PodsAreGone", ObservedGeneration: i.Generation}
	if stays {
		c.Status, c.Reason = metav1.ConditionTrue, "PodsStay"
		c.Message = fmt.Sprintf("it ended (%s) at %s, and pods of %s still use what it had, more than is left to it here: they are deleted from %s on",
			ours.Reason, ours.Changed.Go().Format(time.RFC3339), ours.Consumer, ours.Changed.Go().Add(l.graces.shrink+l.graces.excess).Format(time.RFC3339))
	}
	was := meta.FindStatusCondition(i.Status.Conditions, c.Type)
	if was == nil && !stays {
		return nil
	}
	begins, before := stays && (was == nil || was.Status != c.Status), i.DeepCopy()
	if !meta.SetStatusCondition(&i.Status.Conditions, c) {
		return nil
	}
	if err := l.Status().Patch(ctx, &i, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	if begins && l.late.events != nil {
		l.late.events.Eventf(&i, nil, corev1.EventTypeWarning, api.ConditionOverstaying, "Free", "%.1000s", c.Message)
	}
	return nil
}

package requests

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

const (
	// The volumes at stake are shown from early, and again from late, before the end of a reservation.
	early, late = 24 * time.Hour, time.Hour
	// lookAgain is how soon volumes that are shown are read again, waiting the same while a
	// deletion waits for them.
	lookAgain = 5 * time.Minute
	waiting   = 5 * time.Second
)

// FindVolumes returns the volumes that providers delete if the reservations of a request end now,
// nil if none. It names each claim. Errors: Unavailable if they cannot be read.
func (r *Controller) FindVolumes(ctx context.Context, object *api.ResourceRequest) (*api.Volumes, error) {
	records, _, err := r.findRecords(ctx, object.Namespace, object.Name, string(object.UID))
	if err != nil {
		return nil, err
	}
	return r.atStake(ctx, records, func(*market.Reservation) market.Time { return r.Market.Now() })
}

// atStake returns the volumes that providers delete once each of these reservations has ended, at its
// time, nil if there are none.
func (r *Controller) atStake(
	ctx context.Context, ending []*market.Reservation, timeOf func(*market.Reservation) market.Time,
) (*api.Volumes, error) {
	if r.Offloading == nil {
		return nil, nil
	}
	var lost []offload.Claim
	for _, part := range ending {
		if !part.Bound() {
			continue
		}
		namespaces, err := r.Offloading.Unoffloads(ctx, part, timeOf(part))
		if err != nil {
			return nil, err
		}
		volumes, err := r.readVolumes(ctx, namespaces)
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			if v.provider == part.Provider {
				lost = append(lost, v.Claim)
			}
		}
	}
	if len(lost) == 0 {
		return nil, nil
	}
	names, digest := offload.SortClaims(lost)
	return &api.Volumes{Count: len(lost), Claims: names, Digest: digest}, nil
}

// guardVolumes makes the deletion of a request wait for this controller, before the request can have volumes.
func (r *Controller) guardVolumes(ctx context.Context, object *api.ResourceRequest) error {
	before := object.DeepCopy()
	if object.Spec.Offload == nil || r.Offloading == nil || !controllerutil.AddFinalizer(object, api.VolumesFinalizer) {
		return nil
	}
	return r.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// finish ends the reservations of a request that is being deleted. It waits while that would delete
// volumes that the user has not given up.
func (r *Controller) finish(
	ctx context.Context, request ctrl.Request, object *api.ResourceRequest,
) (ctrl.Result, error) {
	guarded := controllerutil.ContainsFinalizer(object, api.VolumesFinalizer)
	if !r.takeEnds(object) {
		return ctrl.Result{}, errWaits
	}
	if guarded {
		volumes, err := r.FindVolumes(ctx, object)
		word := object.Annotations[api.VolumesMayDie]
		if err != nil || volumes != nil && word != volumes.Digest {
			return ctrl.Result{RequeueAfter: waiting}, r.showWaiting(ctx, object, volumes, err)
		}
	}
	if _, err := r.readRecords(ctx, request, ""); err != nil || !guarded {
		return ctrl.Result{}, err
	}
	before := object.DeepCopy()
	controllerutil.RemoveFinalizer(object, api.VolumesFinalizer)
	err := r.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// showWaiting shows which volumes delay the deletion of a request, or why they could not be read.
func (r *Controller) showWaiting(ctx context.Context, object *api.ResourceRequest, v *api.Volumes, cause error) error {
	message := "the deletion waits until the volumes can be read: "
	if cause != nil {
		message += cause.Error()
	} else {
		message = fmt.Sprintf("the deletion waits, because it would delete %s: copy the data and delete the claims, "+
			"or give the data up: kubectl -n %s annotate --overwrite resourcerequest %s %s=%s",
			v, object.Namespace, object.Name, api.VolumesMayDie, v.Digest)
	}
	status := object.Status.DeepCopy()
	setVolumes(status, "DeletionWaits", message, object.Generation)
	return r.writeStatus(ctx, object, *status, corev1.EventTypeWarning, "DeletionWaits")
}

// setVolumes sets the condition VolumesAtStake.
func setVolumes(status *api.ResourceRequestStatus, reason, message string, generation int64) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: api.ConditionVolumesAtStake, Status: metav1.ConditionTrue,
		Reason: reason, Message: message, ObservedGeneration: generation,
	})
}

// warnOfEnd sets the condition VolumesAtStake if parts of a request that end soon take volumes with
// them. An end by time does not wait.
func (r *Controller) warnOfEnd(
	ctx context.Context, object *api.ResourceRequest, status *api.ResourceRequestStatus, parts []*market.Reservation,
) {
	if object.Spec.Offload == nil {
		return
	}
	soon := slices.DeleteFunc(slices.Clone(parts), func(p *market.Reservation) bool {
		return !p.Bound() || r.timeLeft(p) > early
	})
	volumes, err := r.atStake(ctx, soon, (*market.Reservation).EndsAt)
	if err != nil {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: api.ConditionVolumesAtStake, Status: metav1.ConditionUnknown, Reason: "NotRead", Message: err.Error(),
			ObservedGeneration: object.Generation,
		})
		return
	}
	if volumes == nil {
		meta.RemoveStatusCondition(&status.Conditions, api.ConditionVolumesAtStake)
		return
	}
	first := slices.MinFunc(soon, func(a, b *market.Reservation) int { return cmp.Compare(a.EndsAt(), b.EndsAt()) })
	reason := "EndsWithinADay"
	if r.timeLeft(first) <= late {
		reason = "EndsWithinAnHour"
	}
	setVolumes(status, reason,
		fmt.Sprintf("%s will be deleted when reservation %s ends, at %s: copy the data, or extend it: "+
			"bourse extend %s --for 24h", volumes, first.ID,
			first.EndsAt().Go().Format(time.RFC3339), first.ID), object.Generation)
}

func (r *Controller) timeLeft(part *market.Reservation) time.Duration {
	return part.EndsAt().Go().Sub(r.Market.Now().Go())
}

// untilLast returns how long it is until the last tenth of a part's time, of an hour at most, begins.
func (r *Controller) untilLast(part *market.Reservation) time.Duration {
	return r.timeLeft(part) - min(late, part.EndsAt().Go().Sub(part.Created.Go())/10)
}

// nextWarning returns how soon the status of a request must warn, or the volumes of the request must be
// looked at, 0 if never.
func (r *Controller) nextWarning(object *api.ResourceRequest, parts []*market.Reservation) (next time.Duration) {
	for _, part := range parts {
		if !part.Bound() {
			continue
		}
		next = soonest(next, max(r.untilLast(part), 0))
		if object.Spec.Offload == nil || r.Offloading == nil {
			continue
		}
		left := r.timeLeft(part)
		switch {
		case left > early:
			left -= early
		case left > late:
			left = min(left-late, lookAgain)
		default:
			left = min(max(left, time.Second), lookAgain)
		}
		next = soonest(next, left)
	}
	return next
}

// soonest returns the shorter of two times to wait. 0 means never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// warnOf emits one Event for each reason of a condition that a request has only while something is wrong.
func (r *Controller) warnOf(object *api.ResourceRequest, before api.ResourceRequestStatus, kind, action string) {
	was := meta.FindStatusCondition(before.Conditions, kind)
	condition := meta.FindStatusCondition(object.Status.Conditions, kind)
	if condition != nil && (was == nil || was.Reason != condition.Reason) {
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, condition.Type, action, "%s", condition.Message)
	}
}

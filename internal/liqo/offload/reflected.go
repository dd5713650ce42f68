package offload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Liqo reports by Events what it copies to a provider. It has no other place for it.
const (
	reflected = "SuccessfulReflection"
	failed    = "FailedReflection"
	disabled  = "ReflectionDisabled"

	// usedUp is in Liqo's words where the quota of a virtual node refuses a pod.
	usedUp = "quota usage exceeded"

	// firstRetry and lastRetry are how soon Liqo tries again after the first failure, and at the latest. The time
	// doubles with each failure, as of any controller.
	firstRetry, lastRetry = 5 * time.Millisecond, 1000 * time.Second
	// lateBy is how much later Liqo may be.
	lateBy = time.Minute
	// eventsRead is how many Events of one reason are read, failuresRead how many objects are
	// looked at that failed.
	eventsRead, failuresRead = 500, 20
)

// NotReflected lists the objects of a namespace that do not reach a provider: those that Liqo fails
// to copy, with its reason, and those that the request leaves out. Liqo reports the latter for an
// hour.
func NotReflected(
	ctx context.Context, r client.Reader, namespace, provider string, now time.Time,
) (fails, leftOut []string, err error) {
	of := func(reason string, more fields.Set) ([]corev1.Event, error) {
		var list corev1.EventList
		more["reason"] = reason
		err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields(more), client.Limit(eventsRead))
		return list.Items, err
	}
	failures, err := of(failed, fields.Set{})
	if err != nil {
		return nil, nil, err
	}
	prefix := fmt.Sprintf("Error reflecting object to cluster %q: ", provider)
	failures = slices.DeleteFunc(failures, func(e corev1.Event) bool { return !strings.HasPrefix(e.Message, prefix) })
	slices.SortFunc(failures, func(a, b corev1.Event) int { return lastSeen(&b).Compare(lastSeen(&a)) })
	seen := map[corev1.ObjectReference]bool{}
	for i := range failures {
		e := &failures[i]
		o := corev1.ObjectReference{Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name}
		if seen[o] || len(seen) == failuresRead || now.After(nextFailure(failures, e)) {
			continue
		}
		seen[o] = true
		if gone, err := isGone(ctx, r, e.InvolvedObject); err != nil || gone {
			if err != nil {
				return nil, nil, err
			}
			continue
		}
		later, err := of(reflected, fields.Set{"involvedObject.uid": string(e.InvolvedObject.UID)})
		if err != nil {
			return nil, nil, err
		}
		if !slices.ContainsFunc(later, func(s corev1.Event) bool {
			return strings.HasPrefix(s.Message, "Successfully reflected object to") && !lastSeen(&s).Before(lastSeen(e))
		}) {
			fails = append(fails, fmt.Sprintf("%s %s/%s: %.300s", o.Kind, namespace, o.Name, strings.TrimPrefix(e.Message, prefix)))
		}
	}
	offs, err := of(disabled, fields.Set{})
	for _, e := range offs {
		object := fmt.Sprintf("%s %s/%s", e.InvolvedObject.Kind, namespace, e.InvolvedObject.Name)
		if strings.HasPrefix(e.Message, fmt.Sprintf("Reflection to cluster %q disabled for the current object", provider)) &&
			!slices.Contains(leftOut, object) {
			leftOut = append(leftOut, object)
		}
	}
	slices.Sort(leftOut)
	return fails, leftOut, err
}

// OverQuota returns those of the failures that [NotReflected] lists in which Liqo's quota refuses a pod. The pod
// is bound to the virtual node: the scheduler does not count pods that have ended, and Liqo's quota does.
func OverQuota(fails []string) (refused []string) {
	for _, f := range fails {
		if strings.HasPrefix(f, "Pod ") && strings.Contains(f, usedUp) {
			refused = append(refused, f)
		}
	}
	return refused
}

// nextFailure returns when Liqo has tried again at the latest since it reported a failure, its last one of an
// object. If it reported none until then, the object is gone.
func nextFailure(failures []corev1.Event, last *corev1.Event) time.Time {
	first, count := firstSeen(last), int32(0)
	for i := range failures {
		if e := &failures[i]; e.InvolvedObject.UID == last.InvolvedObject.UID {
			count += max(e.Count, 1)
			if firstSeen(e).Before(first) {
				first = firstSeen(e)
			}
		}
	}
	// Each wait is as long as all before it together. The count is too low where Kubernetes drops Events of one
	// object, the time where a change of the object made Liqo try at once.
	wait := max(lastSeen(last).Sub(first), firstRetry<<min(count, 18))
	return lastSeen(last).Add(min(2*wait, lastRetry) + lateBy)
}

// isGone reports whether the object of an Event was deleted. It knows this of those kinds alone that the agent may
// read.
func isGone(ctx context.Context, r client.Reader, of corev1.ObjectReference) (bool, error) {
	lists := map[string]client.ObjectList{
		"Pod": &corev1.PodList{}, "Service": &corev1.ServiceList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
	}
	list := lists[of.Kind]
	if list == nil {
		return false, nil
	}
	err := r.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingFields{"metadata.name": of.Name})
	if err != nil {
		return false, err
	}
	gone := true
	err = meta.EachListItem(list, func(o runtime.Object) error {
		if uid := o.(client.Object).GetUID(); of.UID == "" || uid == of.UID {
			gone = false
		}
		return nil
	})
	return gone, err
}

// firstSeen returns when an Event was first seen.
func firstSeen(e *corev1.Event) time.Time {
	return cmp.Or(e.FirstTimestamp.Time, e.EventTime.Time, lastSeen(e))
}

// lastSeen returns when an Event was last seen.
func lastSeen(e *corev1.Event) time.Time {
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

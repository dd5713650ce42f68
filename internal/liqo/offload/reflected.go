package offload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Liqo reports by Events what it copies to a provider. It has no other place for it.
const (
	reflected = "SuccessfulReflection"
	failed    = "FailedReflection"
	disabled  = "ReflectionDisabled"

	// usedUp is in Liqo's words where the quota of a virtual node refuses a pod.
	usedUp = "quota usage exceeded"

	// retriesWithin is how soon Liqo tries again at the latest: an older failure is of an object
	// that is gone.
	retriesWithin = 20 * time.Minute
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
	slices.SortFunc(failures, func(a, b corev1.Event) int { return lastSeen(&b).Compare(lastSeen(&a)) })
	seen := map[corev1.ObjectReference]bool{}
	for i := range failures {
		e := &failures[i]
		o := corev1.ObjectReference{Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name}
		why, ours := strings.CutPrefix(e.Message, prefix)
		if !ours || seen[o] || len(seen) == failuresRead || now.Sub(lastSeen(e)) > retriesWithin {
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
			fails = append(fails, fmt.Sprintf("%s %s/%s: %.300s", o.Kind, namespace, o.Name, why))
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

// isGone reports whether the object of an Event was deleted. It knows this of pods alone: the agent may read no
// other objects of users.
func isGone(ctx context.Context, r client.Reader, of corev1.ObjectReference) (bool, error) {
	if of.Kind != "Pod" {
		return false, nil
	}
	var pods corev1.PodList
	err := r.List(ctx, &pods, client.InNamespace(of.Namespace), client.MatchingFields{"metadata.name": of.Name})
	return err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return of.UID == "" || p.UID == of.UID
	}), err
}

// lastSeen returns when an Event was last seen.
func lastSeen(e *corev1.Event) time.Time {
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

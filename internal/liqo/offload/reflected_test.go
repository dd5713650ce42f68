package offload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventsOf are the Events of a namespace. They can be listed by reason and by the UID of their object.
type eventsOf []corev1.Event

func (e eventsOf) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not asked for")
}

func (e eventsOf) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if _, ok := list.(*corev1.EventList); !ok { // one of each kind is there
		name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
		if there := (metav1.ObjectMeta{Name: name, UID: "runs"}); name == "runs" {
			switch list := list.(type) {
			case *corev1.PodList:
				list.Items = []corev1.Pod{{ObjectMeta: there}}
			case *corev1.ServiceList:
				list.Items = []corev1.Service{{ObjectMeta: there}}
			case *corev1.PersistentVolumeClaimList:
				list.Items = []corev1.PersistentVolumeClaim{{ObjectMeta: there}}
			}
		}
		return nil
	}
	reason, _ := o.FieldSelector.RequiresExactMatch("reason")
	uid, one := o.FieldSelector.RequiresExactMatch("involvedObject.uid")
	for _, event := range e {
		if event.Reason == reason && (!one || event.InvolvedObject.UID == types.UID(uid)) {
			list.(*corev1.EventList).Items = append(list.(*corev1.EventList).Items, event)
		}
	}
	return nil
}

// What Liqo fails to copy to a provider, and what it leaves out, is read from its Events. The
// newest Event of an object counts.
func TestNotReflected(t *testing.T) {
	now := time.Now()
	event := func(ago time.Duration, name, reason, message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: name,
				UID: types.UID(name)}, Reason: reason, Message: message,
			LastTimestamp: metav1.NewTime(now.Add(-ago)),
		}
	}
	ofPod := func(e corev1.Event) corev1.Event {
		e.InvolvedObject.Kind = "Pod"
		return e
	}
	const refused, done = `Error reflecting object to cluster "milan": refused`, `Successfully reflected object to cluster "milan"`
	fails, leftOut, err := NotReflected(t.Context(), eventsOf{
		event(time.Minute, "fails", failed, `Error reflecting object to cluster "milan": too old`), event(time.Second,
			"fails", failed, refused),
		event(time.Minute, "fails", reflected, done),
		event(time.Minute, "mended", failed, refused), event(time.Second, "mended", reflected, done),
		event(50*time.Second, "status", failed, refused), event(time.Second,
			"status", reflected, `Successfully reflected object status back from cluster "milan"`),
		event(time.Second, "back", failed, `Error reflecting object status back from cluster "milan": refused`),
		event(time.Hour, "gone", failed, refused),
		ofPod(event(30*time.Second, "deleted", failed, refused)), ofPod(event(40*time.Second, "runs", failed, refused)),
		event(time.Second, "elsewhere", failed, `Error reflecting object to cluster "paris": refused`),
		event(time.Minute, "off", disabled,
			`Reflection to cluster "milan" disabled for the current object (policy: "AllowList")`),
		event(time.Second, "off", disabled,
			`Reflection to cluster "milan" disabled for the current object (policy: "AllowList")`),
		event(time.Second, "pod", disabled, `Reflection to cluster "milan" disabled for namespace "db".`),
	}, "db", "milan", now)
	if err != nil || !slices.Equal(fails, []string{"Secret db/fails: refused", "Pod db/runs: refused", "Secret db/status: refused"}) ||
		!slices.Equal(leftOut, []string{"Secret db/off"}) {
		t.Errorf("it fails for %q, leaves out %q, %v", fails, leftOut, err)
	}
	of := func(kind string, e corev1.Event) corev1.Event {
		e.InvolvedObject.Kind = kind
		return e
	}
	since := func(before time.Duration, count int32, e corev1.Event) corev1.Event {
		e.FirstTimestamp, e.Count = metav1.NewTime(e.LastTimestamp.Add(-before)), count
		return e
	}
	fails, _, err = NotReflected(t.Context(), eventsOf{
		of("Service", event(time.Second, "runs", failed, refused)), of("Service", event(time.Second, "deleted", failed, refused)),
		of("PersistentVolumeClaim", event(time.Second, "deleted", failed, refused)),
		// of these the agent knows only when Liqo would have failed again
		since(4*time.Second, 10, event(50*time.Second, "stays", failed, refused)),
		since(4*time.Second, 10, event(3*time.Minute, "deleted", failed, refused)),
		of("ConfigMap", since(time.Second, 17, event(10*time.Minute, "edited", failed, refused))),
		of("Ingress", since(10*time.Minute, 2, event(12*time.Minute, "dropped", failed, refused))),
		of("Ingress", since(time.Hour, 30, event(19*time.Minute, "gone", failed, refused))),
	}, "db", "milan", now)
	if slices.Sort(fails); err != nil || !slices.Equal(fails, []string{"ConfigMap db/edited: refused",
		"Ingress db/dropped: refused", "Secret db/stays: refused", "Service db/runs: refused"}) {
		t.Errorf("it fails for %q, %v", fails, err)
	}
	var many eventsOf
	for i := range 300 {
		many = append(many, event(time.Second, fmt.Sprint("secret-", i), failed, refused+strings.Repeat("!", 1000)))
	}
	if fails, _, _ := NotReflected(t.Context(), many, "db", "milan", now); len(fails) != failuresRead ||
		len(fails[0]) > 400 {
		t.Errorf("of 300 failures it lists %d, the first with %d characters", len(fails), len(fails[0]))
	}
}

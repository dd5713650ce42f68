package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// From a ResourceRequest in a user's namespace to instructions on both sides, and back.
func TestRequestReservesAndReleases(t *testing.T) {
	w := start(t)
	makeNamespace(t, w.rome, "team")
	before := w.now(t, w.paris, "nvidia.com/gpu")
	resources := cpu("4")
	resources["nvidia.com/gpu"] = cpu("2")["cpu"]
	r := ask(t, w.rome, "team", "training", api.Request{
		Resources: resources, Where: `region == "fr"`, Duration: &metav1.Duration{Duration: time.Hour},
	})
	becomes(t, w.rome, r, api.Reserved)

	for _, name := range []string{api.ConditionReserved, api.ConditionReady} {
		c := meta.FindStatusCondition(r.Status.Conditions, name)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != r.Generation {
			t.Errorf("condition %s is %+v, want True for generation %d", name, c, r.Generation)
		}
	}
	if r.Status.Provider != "paris" || r.Status.Until == nil || time.Until(r.Status.Until.Time) > time.Hour {
		t.Errorf("status is %+v, want paris for at most an hour", r.Status)
	}
	bothInstructed(t, w, r)
	tells(t, w.rome, r, "Reserved")
	w.shows(t, w.paris, "nvidia.com/gpu", before.reserve(2000))
	printsColumns(t, w, r)

	release(t, w.rome, r)
	w.shows(t, w.paris, "nvidia.com/gpu", before)
	eventually(t, "the instructions are gone", func(ctx context.Context) error {
		_, there := provided(ctx, w.paris, r.Status.Reservation)
		here := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "team", Name: r.Status.Reservation},
			&api.ReservationInstruction{})
		if !apierrors.IsNotFound(there) || !apierrors.IsNotFound(here) {
			return fmt.Errorf("consumer's: %w, provider's: %w", here, there)
		}
		return nil
	})
}

// bothInstructed waits for the instructions of a reservation: the same on both sides, the
// consumer's owned by the request.
func bothInstructed(t *testing.T, w *world, r *api.ResourceRequest) {
	t.Helper()
	eventually(t, "both sides are instructed", func(ctx context.Context) error {
		theirs, err := provided(ctx, w.paris, r.Status.Reservation)
		if err != nil {
			return err
		}
		var ours api.ReservationInstruction
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: r.Namespace, Name: r.Status.Reservation},
			&ours); err != nil {
			return err
		}
		if diff := cmp.Diff(theirs.Spec, ours.Spec); diff != "" {
			return fmt.Errorf("-provider's +consumer's:\n%s", diff)
		}
		ready := meta.IsStatusConditionTrue(ours.Status.Conditions, api.ConditionReady) &&
			meta.IsStatusConditionTrue(theirs.Status.Conditions, api.ConditionReady)
		if !ready || !metav1.IsControlledBy(&ours, r) || ours.Spec.Acceptance == "" {
			return fmt.Errorf("ready: %v, owners: %v, acceptance: %q", ready, ours.OwnerReferences, ours.Spec.Acceptance)
		}
		return nil
	})
}

// tells waits for an Event about a request, in its own namespace.
func tells(t *testing.T, m *federation.Member, r *api.ResourceRequest, reason string) {
	t.Helper()
	eventually(t, "an Event tells "+reason, func(ctx context.Context) error {
		var events eventsv1.EventList
		if err := m.Objects.List(ctx, &events, kube.InNamespace(r.Namespace)); err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if e.Regarding.UID == r.UID && e.Reason == reason && e.Note != "" && e.ReportingController == "bourse-agent" {
				return nil
			}
			said = append(said, e.Reason+" of "+e.Regarding.Name)
		}
		return errors.New(strings.Join(said, ", "))
	})
}

// printsColumns checks what kubectl get shows where there is a reservation.
func printsColumns(t *testing.T, w *world, r *api.ResourceRequest) {
	t.Helper()
	until := r.Status.Until.UTC().Format(time.RFC3339)
	for _, c := range []struct {
		of                        *federation.Member
		resource, namespace, name string
		want                      map[string]string
	}{
		{w.rome, "resourcerequests", "team", r.Name,
			map[string]string{"State": "Reserved", "Provider": "paris", "CPU": "4", "Until": until}},
		{w.rome, "reservationinstructions", "team", r.Status.Reservation,
			map[string]string{"State": "Reserved", "Provider": "paris", "CPU": "4", "Until": until}},
		{w.paris, "providerinstructions", api.Namespace, r.Status.Reservation,
			map[string]string{"State": "Reserved", "Consumer": "rome", "CPU": "4", "Until": until}},
		{w.paris, "sharingpolicies", "", "default", map[string]string{"Ready": "True",
			"Message": "what it shares is advertised"}},
		{w.paris, "advertisements", api.Namespace, "cluster",
			map[string]string{"Published": "True", "CPU": "28", "Region": "fr"}},
	} {
		cells, err := columns(t.Context(), c.of, c.resource, c.namespace, c.name)
		if err != nil {
			t.Errorf("%s: %v", c.resource, err)
			continue
		}
		for column, want := range c.want {
			if cells[column] != want {
				t.Errorf("column %s of %s shows %q, want %q", column, c.resource, cells[column], want)
			}
		}
	}
}

// There are 48 CPU: of two who want 30 at the same time, one gets them and the other learns why not.
func TestTwoConsumersRoomForOne(t *testing.T) {
	w := start(t)
	if n := w.now(t, w.milan, "cpu"); n.Available != 48000 {
		t.Fatalf("milan has %+v, want all of its 48 CPU available", n)
	}
	want := api.Request{Resources: cpu("30"), Target: "milan"}
	requests := map[*federation.Member]*api.ResourceRequest{
		w.rome:  ask(t, w.rome, "default", "for-one", want),
		w.paris: ask(t, w.paris, "default", "for-one", want),
	}
	var states []api.State
	for m, r := range requests {
		eventually(t, "the request of "+m.Name+" is decided", func(ctx context.Context) error {
			err := m.Objects.Get(ctx, kube.ObjectKeyFromObject(r), r)
			if err == nil && r.Status.State != api.Reserved && !(r.Status.State != "" && r.Status.State.Over()) {
				err = fmt.Errorf("it is %q", r.Status.State)
			}
			return err
		})
		states = append(states, r.Status.State)
		if r.Status.State == api.Reserved {
			continue
		}
		tells(t, m, r, "Rejected")
		if !strings.Contains(r.Status.Message, "milan") || !strings.Contains(r.Status.Message, "cpu short") {
			t.Errorf("the message does not explain: %s", r.Status.Message)
		}
		known, err := m.People(0).Reservation(t.Context(), r.Status.Reservation)
		if d := known.Payload.Decision; err != nil || d == nil || d.NearestMiss == nil || d.NearestMiss.Cluster != "milan" {
			t.Errorf("the broker explains %+v (%v), want milan as the nearest miss", d, err)
		}
	}
	if slices.Sort(states); !slices.Equal(states, []api.State{api.Rejected, api.Reserved}) {
		t.Errorf("they are %v, want one Reserved and one Rejected", states)
	}
}

// What does not fit on one provider any more goes to another, until there is none.
func TestNextRequestGoesElsewhere(t *testing.T) {
	w := start(t)
	if n := w.now(t, w.paris, "cpu"); n.Available != 32000 {
		t.Fatalf("paris has %+v, want all of its 32 CPU available", n)
	}
	w.now(t, w.milan, "cpu")
	var providers []string
	for i := range 2 {
		r := ask(t, w.rome, "default", fmt.Sprintf("elsewhere-%d", i), api.Request{Resources: cpu("30")})
		becomes(t, w.rome, r, api.Reserved)
		providers = append(providers, r.Status.Provider)
	}
	if slices.Sort(providers); !slices.Equal(providers, []string{"milan", "paris"}) {
		t.Errorf("reserved from %v, want one from milan and one from paris", providers)
	}
	becomes(t, w.rome, ask(t, w.rome, "default", "nowhere", api.Request{Resources: cpu("30")}), api.Rejected)
}

func makeNamespace(t *testing.T, m *federation.Member, name string) {
	t.Helper()
	err := m.Objects.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

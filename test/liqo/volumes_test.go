package liqo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A release and a deletion wait while they would delete volumes, until their user gives up exactly
// these volumes.
func TestVolumesDoNotDie(t *testing.T) {
	w := start(t)
	w.lendsDisks(t, w.milan, w.rome)
	a := w.ask(t, w.rome, w.milan, "vault", amounts("1", "1Gi"), func(r *api.ResourceRequest) {
		r.Spec.Duration = &metav1.Duration{Duration: 48 * time.Hour}
	})
	a.becomes(api.Active)
	a.store("data")
	second := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "second"},
		Spec: *a.request.Spec.DeepCopy()}
	if err := w.rome.Objects.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	b := &asked{w, t, w.rome, second}
	b.becomes(api.Active)
	if c := b.atStake(t.Context()); c != nil {
		t.Errorf("two days before the end it shows %+v", c)
	}
	a.release() // the second request keeps the volume
	b.hasVolumes("data")

	// Neither REST nor the command line deletes it without a word.
	id := second.Status.Reservation
	err := w.rome.People(0).ReleaseLocally(t.Context(), id, api.Release{VolumesDie: "guessed"})
	refusal, _ := errors.AsType[*api.Error](err)
	if refusal == nil || refusal.Code != api.CodeVolumesAtStake ||
		!slices.Equal(refusal.Volumes.Claims, []string{"vault/data"}) {
		t.Fatalf("release: %v", err)
	}
	first := refusal.Volumes.Digest
	if out, err := w.releases(t, id); err == nil || !strings.Contains(out, "vault/data") ||
		!strings.Contains(out, "--volumes-die "+first) {
		t.Errorf("bourse release: %v\n%s", err, out)
	}

	// A word for one volume is void once there are two.
	if err := b.givesUp(first); err != nil {
		t.Fatal(err)
	}
	b.store("more")
	if err := w.rome.Objects.Delete(t.Context(), second.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	b.waitsFor("DeletionWaits", "2 volumes (vault/data, vault/more)")
	w.diagnoses(t, "VolumesAtStake", "request vault/second")
	agent := w.agentOf(t, w.rome)
	agent.kill()
	agent.start()
	err = w.rome.People(0).ReleaseLocally(t.Context(), id, api.Release{VolumesDie: first})
	refusal, _ = errors.AsType[*api.Error](err)
	if refusal == nil || refusal.Volumes == nil || refusal.Volumes.Digest == first {
		t.Fatalf("release with a void word: %v", err)
	}
	b.hasVolumes("data", "more")
	if known, err := w.rome.People(0).Reservation(t.Context(), id); err != nil || known.Payload.State != api.Active {
		t.Errorf("the reservation is %s, %v", known.Payload.State, err)
	}
	if out, err := w.releases(t, id, "--volumes-die", refusal.Volumes.Digest); err != nil {
		t.Fatalf("bourse release: %v\n%s", err, out)
	}
	b.released()
	w.nothingLeft(t, w.rome, w.milan)
	eventually(t, "the volumes are gone, and the request", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(second), &api.ResourceRequest{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the request is there: %w", err)
		}
		return noVolume(ctx, w.milan, "vault-rome")
	})
}

// The end of a reservation's time does not wait for volumes. It is shown a day before, and an hour before.
func TestVolumesEndWithTheTime(t *testing.T) {
	w := start(t)
	w.lendsDisks(t, w.milan, w.rome)
	a := w.ask(t, w.rome, w.milan, "brief", amounts("1", "1Gi"), func(r *api.ResourceRequest) {
		r.Spec.Duration = &metav1.Duration{Duration: 48 * time.Hour}
	})
	a.becomes(api.Active)
	a.store("data")
	last := func(left time.Duration) {
		t.Helper()
		change := api.ReservationChange{For: &metav1.Duration{Duration: left}}
		if _, err := w.rome.People(0).ChangeLocally(t.Context(), a.request.Status.Reservation, change); err != nil {
			t.Fatal(err)
		}
	}
	last(23 * time.Hour)
	a.waitsFor("EndsWithinADay", "1 volume (brief/data)")
	last(40 * time.Minute)
	a.waitsFor("EndsWithinAnHour", "1 volume (brief/data)")
	last(48 * time.Hour)
	eventually(t, "nothing is at stake", func(ctx context.Context) error {
		if c := a.atStake(ctx); c != nil {
			return fmt.Errorf("it shows %+v", c)
		}
		return nil
	})
	last(15 * time.Second) // an end that is over when the provider reads it is refused
	a.becomes(api.Released)
	w.nothingLeft(t, w.rome, w.milan)
	eventually(t, "the volume is gone", func(ctx context.Context) error { return noVolume(ctx, w.milan, "brief-rome") })
	if err := w.rome.Objects.Delete(t.Context(), a.request); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its deletion does not wait", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request),
			&api.ResourceRequest{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the request is there: %w", err)
		}
		return nil
	})
}

// store runs a pod with a new volume at milan.
func (a *asked) store(name string) {
	a.t.Helper()
	claim := a.claim(name)
	d := a.run(1, "100m", "64Mi", mounts(name))
	a.running(a.milan, 1)
	a.isBound(claim, a.milan)
	if err := a.from.Objects.Delete(a.t.Context(), d,
		kube.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		a.t.Fatal(err)
	}
	a.running(a.milan, 0)
	eventually(a.t, "its Deployment is gone", func(ctx context.Context) error {
		if err := a.from.Objects.Get(ctx, kube.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// hasVolumes demands that claims have their volumes at milan.
func (a *asked) hasVolumes(names ...string) {
	a.t.Helper()
	for _, name := range names {
		a.isBound(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: a.request.Namespace, Name: name}},
			a.milan)
	}
}

// givesUp gives the word that a list of volumes may be deleted, as kubectl annotate does.
func (a *asked) givesUp(digest string) error {
	before := a.request.DeepCopy()
	metav1.SetMetaDataAnnotation(&a.request.ObjectMeta, api.VolumesMayDie, digest)
	return a.from.Objects.Patch(a.t.Context(), a.request, kube.MergeFrom(before))
}

// atStake returns the condition VolumesAtStake, nil if there is none.
func (a *asked) atStake(ctx context.Context) *metav1.Condition {
	var r api.ResourceRequest
	if err := a.from.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), &r); err != nil {
		return &metav1.Condition{Message: err.Error()}
	}
	return meta.FindStatusCondition(r.Status.Conditions, api.ConditionVolumesAtStake)
}

// waitsFor demands the condition VolumesAtStake with a reason, and an Event that says the same.
func (a *asked) waitsFor(reason, volumes string) {
	a.t.Helper()
	eventually(a.t, a.request.Name+": "+reason, func(ctx context.Context) error {
		c := a.atStake(ctx)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, volumes) {
			return fmt.Errorf("it shows %+v", c)
		}
		var events corev1.EventList
		if err := a.from.Objects.List(ctx, &events, kube.InNamespace(a.request.Namespace),
			kube.MatchingFields{"reason": c.Type}); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Message == c.Message }) {
			return fmt.Errorf("none of %d Events says so", len(events.Items))
		}
		return nil
	})
}

// releases runs bourse release, without a terminal.
func (w *world) releases(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.Binary, append([]string{"release", "-A"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.rome.Cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

package requests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
)

// stored is a controller of rome, which has claims in namespace db, and reservation r-1 at milan.
func stored(t *testing.T, all claims) (*Controller, *events.FakeRecorder) {
	t.Helper()
	x := exchangetest.Open(t, nil, exchange.Options{Self: "rome", Resume: true})
	for _, name := range []string{"milan", "oslo"} {
		if _, err := x.Do(t.Context(), market.Pin{Cluster: name, Key: "k-" + name}); err != nil {
			t.Fatal(err)
		}
	}
	recorder := events.NewFakeRecorder(10)
	return New(Options{Borrower: NewBorrower(BorrowerOptions{Cluster: "rome"}), Market: x, Volumes: all, Events: recorder,
		Offloading: offloads{"db"},
	}), recorder
}

func named(name string, uid types.UID, c corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	c.Namespace, c.Name, c.UID = "db", name, uid
	return c
}

func atMilan(name string, uid types.UID) corev1.PersistentVolumeClaim {
	return named(name, uid, claim(market.SliceName("rome", "milan", "gpu"), corev1.ClaimBound))
}

// endsIn is a part of a request that has so much time left.
func (r *Controller) endsIn(left time.Duration) *market.Reservation {
	return &market.Reservation{
		ID: "r-1", State: api.Active, Consumer: "rome", Provider: "milan", Until: market.At(r.Market.Now().Go().Add(left)),
	}
}

// What is at stake are the volumes at the provider that a reservation leaves, unless they end otherwise.
func TestVolumesAtStake(t *testing.T) {
	now := metav1.Now()
	deleted, ephemeral := atMilan("deleted", "2"), atMilan("ephemeral", "3")
	deleted.DeletionTimestamp, ephemeral.OwnerReferences = &now, []metav1.OwnerReference{{Kind: "Pod",
		Controller: new(true)}}
	lost := named("lost", "4", claim(market.SliceName("rome", "milan", "general"), corev1.ClaimLost))
	oslo := named("elsewhere", "5", claim(market.SliceName("rome", "oslo", "general"), corev1.ClaimBound))
	fresh := named("fresh", "6", claim(market.SliceName("rome", "milan", "general"), corev1.ClaimPending))
	home := named("home", "7", claim("worker-1", corev1.ClaimBound))
	find := func(all ...corev1.PersistentVolumeClaim) *api.Volumes {
		t.Helper()
		r, _ := stored(t, claims{"db": all})
		v, err := r.atStake(t.Context(), []*market.Reservation{r.endsIn(time.Hour)}, (*market.Reservation).EndsAt)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	if v := find(deleted, ephemeral, oslo, fresh, home); v != nil {
		t.Errorf("nothing is at stake, but %s", v)
	}
	v := find(atMilan("data", "1"), deleted, ephemeral, lost, oslo, fresh, home)
	if v == nil || v.String() != "2 volumes (db/data, db/lost)" || len(v.Digest) != 16 {
		t.Fatalf("at stake are %+v", v)
	}
	if again := find(lost, atMilan("data", "1")); again == nil || again.Digest != v.Digest {
		t.Errorf("the same list in another order: %+v, %+v", v, again)
	}
	for what, all := range map[string][]corev1.PersistentVolumeClaim{
		"one less": {lost}, "one more": {lost, atMilan("data", "1"),
			atMilan("more", "8")}, "one made again": {lost, atMilan("data", "9")},
	} {
		if other := find(all...); other == nil || other.Digest == v.Digest {
			t.Errorf("%s: %+v, %+v", what, v, other)
		}
	}
	r, _ := stored(t, claims{})
	if _, err := r.atStake(t.Context(), []*market.Reservation{r.endsIn(0)},
		(*market.Reservation).EndsAt); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("claims that cannot be read: %v", err)
	}
	pending := r.endsIn(0)
	pending.State = api.Held
	if v, err := r.atStake(t.Context(), []*market.Reservation{pending},
		(*market.Reservation).EndsAt); v != nil || err != nil {
		t.Errorf("what is not bound: %+v, %v", v, err)
	}
}

// An end by time is shown a day before and again an hour before, each with one Event. It does not wait.
func TestVolumesBeforeTheEnd(t *testing.T) {
	r, recorder := stored(t, claims{"db": {atMilan("data", "1")}})
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Offload: &api.Offload{Namespaces: []string{"db"}}}}
	for _, step := range []struct {
		left, look time.Duration // at most
		reason     string
		event      bool
	}{
		{30 * time.Hour, 6 * time.Hour, "", false},
		{24 * time.Hour, lookAgain, "EndsWithinADay", true},
		{2 * time.Hour, lookAgain, "EndsWithinADay", false},
		{62 * time.Minute, 2 * time.Minute, "EndsWithinADay", false},
		{time.Hour, lookAgain, "EndsWithinAnHour", true},
		{time.Minute, time.Minute, "EndsWithinAnHour", false},
		{30 * time.Hour, 6 * time.Hour, "", false}, // it was extended
	} {
		parts := []*market.Reservation{r.endsIn(step.left)}
		before := object.Status
		status := before.DeepCopy()
		r.warnOfEnd(t.Context(), object, status, parts)
		object.Status = *status
		r.warnOf(object, before, api.ConditionVolumesAtStake, "Release")
		reason := ""
		if c := meta.FindStatusCondition(status.Conditions, api.ConditionVolumesAtStake); c != nil {
			reason = c.Reason
			if !strings.Contains(c.Message, "db/data") || !strings.Contains(c.Message, "bourse extend r-1") {
				t.Errorf("%s before the end: %s", step.left, c.Message)
			}
		}
		event := false
		select {
		case <-recorder.Events:
			event = true
		default:
		}
		if look := r.nextWarning(object, parts); reason != step.reason ||
			event != step.event || look <= 0 || look > step.look {
			t.Errorf("%s before the end: reason %q, Event %v, next look in %s; want %+v", step.left, reason, event, look, step)
		}
	}
	r.Volumes = claims{}
	r.warnOfEnd(t.Context(), object, &object.Status, []*market.Reservation{r.endsIn(time.Hour)})
	c := meta.FindStatusCondition(object.Status.Conditions, api.ConditionVolumesAtStake)
	if c == nil || c.Status != metav1.ConditionUnknown {
		t.Errorf("claims that cannot be read: %+v", c)
	}
	nothing := &api.ResourceRequest{}
	if look := r.nextWarning(nothing, []*market.Reservation{r.endsIn(time.Hour)}); look != 0 {
		t.Errorf("without offloading it looks in %s", look)
	}
}

// pages are claims that the API server gives in pages, all of them with the longest name.
type pages struct{ left, limit, asked int }

func (p *pages) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not asked for")
}

func (p *pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	out := list.(*corev1.PersistentVolumeClaimList)
	out.Items, out.Continue, p.limit = nil, "", max(p.limit, int(o.Limit))
	for p.asked++; len(out.Items) < int(o.Limit) && p.left > 0; p.left-- {
		name := fmt.Sprintf("%0253d", p.left)
		out.Items = append(out.Items, atMilan(name, types.UID(name)))
	}
	if p.left > 0 {
		out.Continue = fmt.Sprint(p.left)
	}
	return nil
}

// Thousands of claims with long names are read in pages, and all count. Messages name some.
func TestManyVolumes(t *testing.T) {
	r, _ := stored(t, nil)
	many := &pages{left: 4321}
	r.Volumes = many
	status := api.ResourceRequestStatus{}
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Offload: &api.Offload{Namespaces: []string{"db"}}}}
	r.warnOfEnd(t.Context(), object, &status, []*market.Reservation{r.endsIn(time.Hour)})
	c := meta.FindStatusCondition(status.Conditions, api.ConditionVolumesAtStake)
	if c == nil || !strings.Contains(c.Message, "4321 volumes") ||
		!strings.Contains(c.Message, "and 4301 more") || len(c.Message) > 8<<10 {
		t.Errorf("it shows %+v", c)
	}
	if many.limit > 500 || many.asked != 9 {
		t.Errorf("%d pages of at most %d", many.asked, many.limit)
	}
}

// offloads are the namespaces that a provider loses.
type offloads []string

func (offloads) Offload(context.Context) error { return nil }

func (o offloads) Unoffloads(context.Context, *market.Reservation, market.Time) ([]string, error) {
	return o, nil
}

func (o offloads) CheckNamespaces(context.Context, *api.ResourceRequest, *api.Card) error { return nil }

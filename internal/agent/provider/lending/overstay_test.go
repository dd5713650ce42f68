package lending

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// Pods that stay beyond the grace of their ended reservation are shown in a condition, in one Event
// and in the count, until they are gone. Pods that go within the grace are not shown.
func TestOverstaying(t *testing.T) {
	ctx, x := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "ProviderInstruction",
			Resource: "providerinstructions", Namespaced: true, Status: true},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	object := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r-1"}}
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(100)
	u := NewUsage(UsageOptions{Client: c, Namespace: "default", Market: x,
		Graces: grant.Graces{Shrink: 30 * time.Second, Excess: time.Minute}, Events: recorder})
	begun := x.Now().Go()
	looks := func(what, id string, since time.Duration, milli int64,
		status metav1.ConditionStatus, counted int, wanted string) {
		t.Helper()
		record := &market.Reservation{ID: id, Consumer: "rome", Provider: "milan",
			State: api.Releasing, Reason: api.ReasonEnded, Changed: market.At(begun.Add(-since))}
		if err := u.showOverstay(ctx, record, milli > 0); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		got := meta.FindStatusCondition(object.Status.Conditions, api.ConditionOverstaying)
		if got == nil && status != "" || got != nil && got.Status != status {
			t.Errorf("%s: the condition is %+v, want %q", what, got, status)
		}
		if status == metav1.ConditionTrue && (!strings.Contains(got.Message, "rome") ||
			!strings.Contains(got.Message, string(api.ReasonEnded))) {
			t.Errorf("%s: it says %q", what, got.Message)
		}
		if now := u.Overstaying(); now != counted {
			t.Errorf("%s: the count is %d, want %d", what, now, counted)
		}
		event := ""
		select {
		case event = <-recorder.Events:
		default:
		}
		if !strings.HasPrefix(event, wanted) || wanted == "" && event != "" || len(recorder.Events) > 0 {
			t.Errorf("%s: the Event is %q (and %d more), want %q", what, event, len(recorder.Events), wanted)
		}
	}
	looks("within the grace", "r-1", time.Second, 1000, "", 0, "")
	looks("its pods are gone at once", "r-1", 25*time.Second, 0, "", 0, "")
	looks("beyond the grace", "r-1", 40*time.Second, 1000, metav1.ConditionTrue, 1, "Warning Overstaying")
	version := object.ResourceVersion
	looks("still", "r-1", 40*time.Second, 1000, metav1.ConditionTrue, 1, "")
	if object.ResourceVersion != version {
		t.Errorf("it is written again: %s, %s", version, object.ResourceVersion)
	}
	looks("another, whose instruction is gone", "r-2", 40*time.Second, 1000, metav1.ConditionTrue, 2, "")
	looks("which goes", "r-2", 50*time.Second, 0, metav1.ConditionTrue, 1, "")
	looks("its pods are gone", "r-1", time.Minute, 0, metav1.ConditionFalse, 0, "")
	looks("once more", "r-1", time.Minute, 0, metav1.ConditionFalse, 0, "")
	looks("and again beyond", "r-1", time.Hour, 1, metav1.ConditionTrue, 1, "Warning Overstaying")
}

package gate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/contract"
)

// An admin takes a contract back by the digest that its object shows. Anything else changes nothing, and is answered.
func TestReclaimedByAnnotation(t *testing.T) {
	c := clientOf(t, "Contract", "contracts")
	g, recorder := newGate(t, "8"), events.NewFakeRecorder(100)
	contracts := &contract.Objects{Client: c, Cluster: "milan", Key: g.milan.Key, Market: g.Market}
	reclaims := &gate.Reclaims{Client: c, Gate: g.Gate, Namespace: api.Namespace, Events: recorder}
	g.sellsSpot("spot", &metav1.Duration{Duration: 10 * time.Minute})
	g.sellsSpot("firm", nil)
	read := func(namespace, id string) *api.Contract {
		t.Helper()
		var o api.Contract
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: id}, &o); err != nil {
			t.Fatal(err)
		}
		return &o
	}
	show := func(namespace, id string) *api.Contract {
		t.Helper()
		if _, err := contracts.Show(t.Context(), namespace, g.ours(id)); err != nil {
			t.Fatal(err)
		}
		return read(namespace, id)
	}
	says := func(o *api.Contract, value string) *metav1.Condition {
		t.Helper()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, "bourse.dev/reclaim", value)
		if err := c.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			at := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}
			if _, err := reclaims.Reconcile(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		return meta.FindStatusCondition(read(o.Namespace, o.Name).Status.Conditions, api.ConditionReclaimed)
	}
	is := func(got *metav1.Condition, reason, part string) {
		t.Helper()
		if got == nil || got.Reason != reason || (got.Status == metav1.ConditionTrue) != (reason == "Reclaimed") ||
			!strings.Contains(got.Message, part) {
			t.Errorf("the answer is %+v, want %s of %s", got, reason, part)
		}
		if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, part) {
			t.Errorf("%d more Events tell it", len(recorder.Events))
		}
	}

	digest := show(api.Namespace, "spot").Status.Digest
	bought := show("default", "spot")
	if says(bought, digest) != nil || says(bought, bought.Status.Digest) != nil || g.ours("spot").Reclaim != "" {
		t.Error("what is in a user's namespace is taken back")
	}
	is(says(show(api.Namespace, "spot"), "true"), "Invalid", `"true"`)
	is(says(show(api.Namespace, "spot"), bought.Status.Digest), "ChangedSince", bought.Status.Digest)
	if g.ours("spot").Reclaim != "" {
		t.Error("it is taken back")
	}
	old := show(api.Namespace, "spot")
	is(says(show(api.Namespace, "spot"), digest), "Reclaimed", digest)
	if g.ours("spot").Reclaim == "" {
		t.Error("it is not taken back")
	}
	reads := 0
	soon, cancel := context.WithCancel(t.Context())
	defer cancel()
	lagging := stale{c, func(o client.Object) {
		old.DeepCopyInto(o.(*api.Contract))
		if reads++; reads == 2 {
			cancel() // it was refused, and is read for another try
		}
	}}
	behind := &contract.Objects{Client: lagging, Cluster: "milan", Key: g.milan.Key, Market: g.Market}
	if _, err := behind.Show(soon, api.Namespace, g.ours("spot")); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("an old copy is written: %v", err)
	}
	after := show(api.Namespace, "spot")
	if after.Status.Digest != "" || after.Status.Answered["reclaim"] != digest ||
		!meta.IsStatusConditionTrue(after.Status.Conditions, api.ConditionReclaimed) || after.Status.Reclaimed == nil {
		t.Errorf("it shows %+v", after.Status)
	}
	firm := show(api.Namespace, "firm")
	if firm.Status.Digest != "" {
		t.Errorf("what is firm shows how to take it back: %+v", firm.Status)
	}
	is(says(firm, contract.ReclaimDigest(firm, g.ours("firm"))), "Forbidden", "has no notice")
	if g.ours("firm").Reclaim != "" {
		t.Error("what is firm is taken back")
	}
}

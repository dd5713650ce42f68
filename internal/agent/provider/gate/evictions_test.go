package gate_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
)

// An admin evicts a cluster by the digest of what it has reserved. A value that was answered, or one from before a
// later reservation, ends nothing.
func TestEvictedByAnnotation(t *testing.T) {
	c := clientOf(t, "Peer", "peers")
	g, recorder := newGate(t, "8"), events.NewFakeRecorder(100)
	evictions := &gate.Evictions{Client: c, Gate: g.Gate, Events: recorder}
	key := types.NamespacedName{Namespace: api.Namespace, Name: "rome"}
	peer := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := c.Create(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	show := func() *api.Peer {
		t.Helper()
		var o api.Peer
		for range 2 {
			if _, err := evictions.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Get(t.Context(), key, &o); err != nil {
			t.Fatal(err)
		}
		return &o
	}
	reserves := func(id string) {
		t.Helper()
		d := g.deal(id, "1")
		g.takes(d)
		g.heard(d.Signed(), "Accept "+id)
	}
	says := func(value string) *api.Peer {
		t.Helper()
		o := show()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, "bourse.dev/evict", value)
		if err := c.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return show()
	}
	is := func(o *api.Peer, reason, part string) {
		t.Helper()
		got := meta.FindStatusCondition(o.Status.Conditions, api.ConditionEvicted)
		if got == nil || got.Reason != reason || (got.Status == metav1.ConditionTrue) != (reason == "Evicted") ||
			!strings.Contains(got.Message, part) {
			t.Errorf("the answer is %+v, want %s of %s", got, reason, part)
		}
		if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, part) {
			t.Errorf("%d more Events tell it", len(recorder.Events))
		}
	}
	if o := show(); o.Status.Lent != nil {
		t.Errorf("nothing is reserved: %+v", o.Status.Lent)
	}
	reserves("r-1")
	one := show().Status.Lent
	if one == nil || one.Reservations != 1 {
		t.Fatalf("it shows %+v", one)
	}
	reserves("r-2")
	two := show().Status.Lent
	if two.Reservations != 2 || two.Digest == one.Digest {
		t.Errorf("it shows %+v after %+v", two, one)
	}
	is(says("true"), "Invalid", `"true"`)
	is(says(one.Digest), "ChangedSince", one.Digest)
	g.holds("r-1", api.Reserved, "")
	g.holds("r-2", api.Reserved, "")
	is(says(two.Digest), "Evicted", two.Digest)
	g.holds("r-1", api.Releasing, api.ReasonRevokedByProvider)
	g.holds("r-2", api.Releasing, api.ReasonRevokedByProvider)
	if o := show(); o.Status.Lent == nil || o.Status.Lent.Digest != two.Digest {
		t.Errorf("while they end it shows %+v", o.Status.Lent)
	}
	reserves("r-3")
	if o := show(); o.Annotations["bourse.dev/evict"] != two.Digest || len(recorder.Events) > 0 {
		t.Errorf("it is answered again: %+v", o)
	}
	g.holds("r-3", api.Reserved, "")
	is(says(two.Digest+".2"), "ChangedSince", two.Digest+".2")
	g.holds("r-3", api.Reserved, "")
}

package gate_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
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
	is(says(one.Digest), "ChangedSince", "bourse suspend rome")
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

// A cluster that reserves more, and less, in between is evicted by the digest that an admin reads once it is suspended.
func TestEvictsWhatIsSuspended(t *testing.T) {
	c := clientOf(t, "Peer", "peers")
	g, d := lends(t)
	evictions := &gate.Evictions{Client: c, Gate: g.Gate}
	peer := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "rome"},
		Spec: api.PeerSpec{Suspend: true}}
	if err := c.Create(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Market.Do(t.Context(), market.Suspend{Cluster: "rome", Why: "it goes"}); err != nil {
		t.Fatal(err)
	}
	digest, err := g.DigestLent(t.Context(), peer)
	if err != nil || digest == "" {
		t.Fatalf("the digest is %q, %v", digest, err)
	}
	more := g.deal("r-2", "1")
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
		return *more.Over(api.Rejected, api.ReasonSuspended), nil
	}
	g.heard(more.Signed(), "Refuse r-2 "+string(api.ReasonSuspended))
	less := d.Changing("1", "") // and no later end
	less.Payload.Change.Until = less.Payload.Until
	less.Payload.Change.Assignment = g.rome.Sign(api.DocumentAssignment, func() api.Assignment {
		r := *less
		r.Payload.Generation, r.Payload.Resources = less.Payload.Change.Generation, less.Payload.Change.Resources
		r.Payload.HeldUntil = less.Payload.Change.HeldUntil
		return g.rome.Assignment(r)
	}())
	g.heard(less, "Accept r-1")
	g.has(2, 1000, 7000)
	metav1.SetMetaDataAnnotation(&peer.ObjectMeta, "bourse.dev/evict", digest)
	if err := c.Update(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	if _, err := evictions.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(peer)}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(peer), peer); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(peer.Status.Conditions, api.ConditionEvicted) {
		t.Errorf("it is answered %+v", peer.Status.Conditions)
	}
	g.holds("r-1", api.Releasing, api.ReasonRevokedByProvider)
}

package federation_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// An admin evicts a cluster with kubectl by the digest of what it has reserved. The annotation stays, and ends nothing
// that the cluster reserves later.
func TestEvictByAnnotation(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	paid := api.Purchase{Units: 1, MaxPrice: webOffer("0.10").Plans[0].Price}
	first := f.buys(f.rome, "first", paid).Reservation
	peer := &api.Peer{}
	read := func() bool {
		return f.milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: "rome"}, peer) == nil
	}
	f.until("it shows what is reserved", func() bool { return read() && peer.Status.Lent != nil })
	old := peer.Status.Lent.Digest
	second := f.buys(f.rome, "second", paid).Reservation
	f.until("it shows both", func() bool { return read() && peer.Status.Lent.Reservations == 2 })
	digest := peer.Status.Lent.Digest
	says := func(value, reason string) {
		t.Helper()
		o := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "rome"}}
		patch := []byte(`{"metadata":{"annotations":{"bourse.dev/evict":"` + value + `"}}}`)
		if err := f.milan.Objects.Patch(t.Context(), o, kube.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
		f.until("it is answered", func() bool { return read() && peer.Status.Answered["evict"] == value })
		if c := meta.FindStatusCondition(peer.Status.Conditions, api.ConditionEvicted); c == nil || c.Reason != reason {
			t.Errorf("%s is answered %+v", value, c)
		}
	}
	says(old, "ChangedSince")
	for _, id := range []string{first, second} {
		if s := f.contractsOf(f.milan)[id].Status; s.State != api.Reserved {
			t.Errorf("after an old digest it is %+v", s)
		}
	}
	says(digest, "Evicted")
	f.until("both end, and show it to rome", func() bool {
		deals := f.contractsOf(f.rome)
		return deals[first].Status.Reason == api.ReasonRevokedByProvider &&
			deals[second].Status.Reason == api.ReasonRevokedByProvider
	})
	f.until("nothing is reserved", func() bool { return read() && peer.Status.Lent == nil })
	third := f.buys(f.rome, "third", paid)
	f.until("it shows the new one", func() bool { return read() && peer.Status.Lent != nil })
	// The look that shows it also decides about the annotation.
	if s := f.contractsOf(f.milan)[third.Reservation].Status; s.State != api.Reserved ||
		peer.Annotations["bourse.dev/evict"] != digest || peer.Status.Answered["evict"] != digest {
		t.Errorf("with the old annotation in place it is %+v of %+v", s, peer)
	}
}

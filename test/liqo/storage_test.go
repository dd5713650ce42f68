package liqo

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The storage of a plan is what volumes the buyer's namespaces can have at the seller, all of them
// together: each has an equal part of what nobody uses, and one volume more than what is left is
// refused.
func TestStorageOfAPlan(t *testing.T) {
	w := start(t)
	w.lendsStorage(t, "100Gi")
	plan := amounts("1", "1Gi")
	plan[corev1.ResourceStorage] = resource.MustParse("10Gi")
	if _, err := w.milan.People(0).PutOffer(t.Context(), "disk",
		api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: plan,
			Quantity: 4, Units: &api.Units{Min: 1, Max: 4}}}}); err != nil {
		t.Fatal(err)
	}
	defer w.withdraws(t, w.milan, "disk")
	second := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stored-too",
		Labels: map[string]string{api.RequestsFromLabel: "stored"}}}
	if err := w.rome.Objects.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	offer := w.sees(t, w.rome, w.milan, "disk")
	a := w.ask(t, w.rome, w.milan, "stored", nil, func(r *api.ResourceRequest) {
		r.Spec.Resources, r.Spec.Target = nil, ""
		r.Spec.Purchase = &api.Purchase{Seller: "milan", Offer: "disk", Plan: "small", Digest: offer.Payload.Digest}
		r.Spec.Offload.Namespaces = append(r.Spec.Offload.Namespaces, second.Name)
	})
	a.becomes(api.Active)
	w.stores(t, map[string]string{"stored-rome": "5Gi", "stored-too-rome": "5Gi"})

	claim := func(namespace, size string) error {
		return w.milan.Objects.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "volume-"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		})
	}
	if err := claim("stored-rome", "6Gi"); !apierrors.IsForbidden(err) {
		t.Errorf("a volume of more than its part: %v", err)
	}
	if err := claim("stored-rome", "4Gi"); err != nil {
		t.Fatal(err)
	}
	w.stores(t, map[string]string{"stored-rome": "7Gi", "stored-too-rome": "3Gi"})
	if err := claim("stored-too-rome", "4Gi"); !apierrors.IsForbidden(err) {
		t.Errorf("a volume of more than is left: %v", err)
	}
	if err := claim("stored-rome", "3Gi"); err != nil {
		t.Fatal(err)
	}
	w.stores(t, map[string]string{"stored-rome": "8704Mi", "stored-too-rome": "1536Mi"})

	// A reservation without storage gets none from a provider that shares it.
	other := w.ask(t, w.paris, w.milan, "bare", amounts("1", "1Gi"))
	other.becomes(api.Active)
	w.stores(t, map[string]string{"bare-paris": "0"})
	other.release()
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	// what was made by hand between the two may be there still
	eventually(t, "milan and paris have no peering", func(ctx context.Context) error {
		return cmp.Or(noPeering(ctx, w.paris, w.milan), noPeering(ctx, w.milan, w.paris))
	})
}

// lendsStorage lets milan lend so much storage until the test ends.
func (w *world) lendsStorage(t *testing.T, amount string) {
	t.Helper()
	size := resource.MustParse(amount)
	set := func(ctx context.Context, size *resource.Quantity) {
		var policy api.SharingPolicy
		if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		before := policy.DeepCopy()
		policy.Spec.Pools[0].Storage = size
		// Not an update: the agent may write its status meanwhile.
		if err := w.milan.Objects.Patch(ctx, &policy, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	set(t.Context(), &size)
	t.Cleanup(func() { set(context.Background(), nil) })
}

// stores waits until namespaces of milan may have just so much storage each.
func (w *world) stores(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the namespaces may have %v", want), func(ctx context.Context) error {
		for namespace, amount := range want {
			var quota corev1.ResourceQuota
			if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: "bourse"}, &quota); err != nil {
				return err
			}
			said, noticed := quota.Spec.Hard[corev1.ResourceRequestsStorage], quota.Status.Hard[corev1.ResourceRequestsStorage]
			if size := resource.MustParse(amount); said.Cmp(size) != 0 || noticed.Cmp(size) != 0 {
				return fmt.Errorf("%s may have %s (%s)", namespace, said.String(), noticed.String())
			}
		}
		return nil
	})
}

package liqo

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A namespace whose volumes are at a provider gets no other one, whomever its next request prefers, unless that says that they may be
// left behind.
func TestDataStays(t *testing.T) {
	w := start(t)
	first := w.ask(t, w.rome, w.milan, "database", amounts("1", "1Gi"))
	first.becomes(api.Active)
	w.hasVolume(t, "database", market.SliceName("rome", "milan", api.GeneralPool))

	next := func(name string, data api.DataPolicy) *asked {
		t.Helper()
		r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "database", Name: name}, Spec: api.ResourceRequestSpec{
			Request: api.Request{Resources: amounts("1", "1Gi"), Prefer: []string{"paris"}}, Offload: &api.Offload{Namespaces: []string{"database"}, Data: data},
		}}
		if err := w.rome.Objects.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.rome.Objects.Delete(context.Background(), r) })
		a := &asked{w, t, w.rome, r}
		a.becomes(api.Active)
		return a
	}
	offload := &api.Offload{Namespaces: []string{"database"}}
	request := api.Request{Resources: amounts("1", "1Gi"), Prefer: []string{"paris"}}
	for data, chosen := range map[api.DataPolicy]string{api.DataStay: "milan", api.DataMove: "paris"} {
		offload.Data = data
		e, err := w.rome.People(0).DryRun(t.Context(), api.RequestCreate{Namespace: "database", Request: request, Offload: offload})
		if err != nil || e.Decision.Chosen != chosen {
			t.Errorf("a dry run with data: %s chooses %s, %v; want %s", data, e.Decision.Chosen, err, chosen)
		}
	}
	stays := next("stays", "")
	if stays.request.Status.Provider != "milan" {
		t.Errorf("the data is at milan, and the request at %s", stays.request.Status.Provider)
	}
	known, err := w.rome.People(0).Reservation(t.Context(), stays.request.Status.Reservation)
	if err != nil || known.Payload.Decision == nil {
		t.Fatalf("%+v, %v", known.Payload, err)
	}
	if miss := known.Payload.Decision.NearestMiss; miss == nil || miss.Cluster != "paris" || miss.Filter != "data" {
		t.Errorf("the nearest miss is %+v of %+v", miss, known.Payload.Decision)
	}
	moves := next("moves", api.DataMove)
	if moves.request.Status.Provider != "paris" {
		t.Errorf("the data may be left behind, and the request is at %s", moves.request.Status.Provider)
	}
	for _, a := range []*asked{moves, stays, first} {
		a.release()
	}
	w.nothingLeft(t, w.rome, w.milan)
	w.nothingLeft(t, w.rome, w.paris)
}

// hasVolume gives a namespace of rome a claim that is bound, as one is whose first pod went to that node.
func (w *world) hasVolume(t *testing.T, namespace, node string) {
	t.Helper()
	size, class := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, "by-hand"
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
	}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data", Annotations: map[string]string{"volume.kubernetes.io/selected-node": node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeName: namespace, AccessModes: volume.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	for _, o := range []kube.Object{volume, claim} {
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.rome.Objects.Delete(context.Background(), o) })
	}
	claim.Status.Phase = corev1.ClaimBound // nothing binds volumes here
	if err := w.rome.Objects.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

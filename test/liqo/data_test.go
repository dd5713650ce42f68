package liqo

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// Liqo's storage fabric makes a volume at the provider of its first pod. From then on, its pods run
// there, and the next request of the namespace gets that provider, also if it prefers another. A
// request may say that the data may stay behind.
func TestDataStays(t *testing.T) {
	w := start(t)
	w.lendsDisks(t, w.milan, w.rome)
	first := w.ask(t, w.rome, w.milan, "database", amounts("1", "1Gi"))
	first.becomes(api.Active)
	claim := first.claim("data")
	database := first.run(1, "100m", "64Mi", mounts("data"))
	first.running(w.milan, 1)
	first.isBound(claim, w.milan)

	next := func(name string, data api.DataPolicy) *asked {
		t.Helper()
		r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "database", Name: name},
			Spec: api.ResourceRequestSpec{
				Request: api.Request{Resources: amounts("1", "1Gi"),
					Prefer: []string{"paris"}}, Offload: &api.Offload{Namespaces: []string{"database"}, Data: data},
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
		e, err := w.rome.People(0).DryRun(t.Context(),
			api.RequestCreate{Namespace: "database", Request: request, Offload: offload})
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
	if err := w.rome.Objects.DeleteAllOf(t.Context(), &corev1.Pod{}, kube.InNamespace("database")); err != nil {
		t.Fatal(err)
	}
	first.running(w.milan, 1) // not at paris, which has as much room
	for _, o := range []kube.Object{database, claim} {
		if err := w.rome.Objects.Delete(t.Context(), o,
			kube.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "Liqo deletes the volume with its claim", func(ctx context.Context) error {
		return errors.Join(noVolume(ctx, w.rome, "database"), noVolume(ctx, w.milan, "database-rome"))
	})
	for _, a := range []*asked{moves, stays, first} {
		a.release()
	}
	w.nothingLeft(t, w.rome, w.milan)
	w.nothingLeft(t, w.rome, w.paris)
}

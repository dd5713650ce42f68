package enrollment

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Without Liqo a cluster has the UID of kube-system, and with Liqo the ID that Liqo gives it, once it does.
func TestFindCluster(t *testing.T) {
	now, log := testclock.NewFakeClock(time.Now()), slog.New(slog.DiscardHandler)
	c := fake.NewFakeClient(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "1-2-3"}})
	if id, err := FindCluster(t.Context(), c, "", "", now, log); err != nil || id != "1-2-3" {
		t.Errorf("without Liqo: %q %v", id, err)
	}
	if id, err := FindCluster(t.Context(), c, "rome", "liqo", now, log); err != nil || id != "rome" {
		t.Errorf("by its flag: %q %v", id, err)
	}
	if _, err := FindCluster(t.Context(), c, "no name", "", now, log); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a flag that is no name: %v", err)
	}
	type answer struct {
		id  string
		err error
	}
	found := make(chan answer, 1)
	find := func(ctx context.Context) {
		id, err := FindCluster(ctx, c, "", "liqo", now, log)
		found <- answer{id, err}
	}
	waits := func() {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !now.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not wait for Liqo")
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go find(ctx)
	waits()
	cancel()
	if got := <-found; got.err == nil {
		t.Errorf("it found %q before Liqo was there", got.id)
	}
	now.Step(lookAgain) // nothing waits any more
	go find(t.Context())
	waits()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: liqo.ClusterIDConfig},
		Data: map[string]string{"CLUSTER_ID": "rome"}}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	now.Step(lookAgain)
	if got := <-found; got.err != nil || got.id != "rome" {
		t.Errorf("with Liqo: %q %v", got.id, got.err)
	}
	m.Data["CLUSTER_ID"] = "no name"
	if err := c.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, err := FindCluster(t.Context(), c, "", "liqo", now, log); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("an ID that is no name: %v", err)
	}
}

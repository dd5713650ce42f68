package kubernetes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The calls of a member are answered although its Reservations cannot be written.
func TestCallsWhileReservationsCannotBeWritten(t *testing.T) {
	w := newFixture(t)
	_, c := w.join("rome")
	var refused atomic.Int32
	w.cluster.Fault(kubeapi.Faults{Before: func(verb, resource, _, _ string) error {
		if verb == "create" && resource == "reservations" {
			refused.Add(1)
			return errors.New("exceeded quota")
		}
		return nil
	}})
	defer w.cluster.Fault(kubeapi.Faults{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // each call has less time
	defer cancel()
	waits := api.Request{Resources: transporttest.CPU("2"), Wait: &metav1.Duration{Duration: time.Hour}}
	if _, err := c.Reserve(ctx, "k-1", waits); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is tried some times", func() error {
		if refused.Load() < 6 {
			return errNotYet
		}
		return nil
	})
	for i := range 20 {
		if _, err := c.Reservations(ctx); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

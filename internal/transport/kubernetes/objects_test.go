package kubernetes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// What the admin of the broker's cluster writes into an object costs no more than its size.
func TestEndlessAmountsOfAnObject(t *testing.T) {
	u := kubernetes.Object(kubernetes.Advertisements, "bourse", "rome")
	for _, amount := range []any{"1e-999999999", "2E6000000000", "1" + string(make([]byte, 100))} {
		u.Object["status"] = map[string]any{"cluster": map[string]any{"pools": map[string]any{
			"general": map[string]any{"capacity": map[string]any{"cpu": amount}}}}}
		slow := time.AfterFunc(time.Minute, func() { panic("an object takes more than a minute to read") })
		err := kubernetes.Part(u, "status", &kubernetes.Status{})
		slow.Stop()
		if wrong, ok := errors.AsType[*api.Error](err); !ok || wrong.Field != "cluster.pools.general.capacity.cpu" {
			t.Errorf("%.40v: %v", amount, err)
		}
	}
}

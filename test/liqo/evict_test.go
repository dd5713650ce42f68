package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A provider evicts a consumer while the broker is dead: what it will end is listed first, and in
// the end nothing of the consumer is left; when the broker is back, the consumer knows, too.
func TestEvictWithoutTheBroker(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "evicted", amounts("2", "2Gi"))
	a.becomes(api.Active)
	a.run(3, "100m", "64Mi")
	a.running(w.milan, 3)
	milan := w.milan.People(0)
	audit, err := milan.Audit(t.Context(), "rome")
	if err != nil || len(audit.Reservations) != 1 || len(audit.Bindings) == 0 ||
		len(audit.Certificates) != 2 || len(audit.Quotas) != 1 ||
		len(audit.Namespaces) != 1 || audit.Namespaces[0].Name != "evicted-rome" ||
		audit.Namespaces[0].Pods != 3 || audit.Fingerprint == "" {
		t.Errorf("%+v, %v", audit, err)
	}
	w.Broker.Kill()
	e, err := w.milan.Evict(t.Context(), "rome")
	if err != nil || len(e.Reservations) != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	eventually(t, "milan is free of rome", func(ctx context.Context) error {
		audit, err := milan.Audit(ctx, "rome")
		if err == nil && (len(audit.Reservations) > 0 || len(audit.Namespaces) > 0 && audit.Namespaces[0].Pods > 0) {
			err = fmt.Errorf("left are %+v", audit)
		}
		return err
	})
	if err := w.StartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.becomes(api.Released)
	if said := a.request.Status.Message; !strings.Contains(said, "milan ended it at ") {
		t.Errorf("the consumer reads %q", said)
	}
	w.nothingLeft(t, w.rome, w.milan)
	if err := w.rome.Objects.Delete(t.Context(), a.request); err != nil {
		t.Fatal(err)
	}
}

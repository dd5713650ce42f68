package federation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bourse-dev/bourse/api"
)

// A rejected request stays rejected, though the broker forgets it when it restarts: its agent does
// not ask again, also not after its own restart and when the request could be served by then.
func TestARejectedRequestIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	one := cores("1000", 0)
	one.Wait = nil
	gone := f.makes(f.rome, "gone", one, api.Rejected)
	if gone.Payload.Decision == nil || gone.Payload.Decision.NearestMiss == nil {
		t.Errorf("its explanation is %+v", gone.Payload.Decision)
	}
	before := must(f.rome.People.Request(t.Context(), "default", "gone"))(t)
	f.Broker.Stop()
	f.StopMember("rome")
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.StartMember("rome")
	f.until("rome is back", func() bool {
		_, err := f.rome.People.Request(t.Context(), "default", "gone")
		return err == nil
	})
	f.makes(f.rome, "later", cores("1", 0), api.Reserved)
	after := must(f.rome.People.Request(t.Context(), "default", "gone"))(t)
	if diff := cmp.Diff(before.Payload.Status, after.Payload.Status); diff != "" {
		t.Errorf("the rejected request has changed: %s", diff)
	}
	if _, err := f.rome.People.Reservation(t.Context(), gone.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the broker remembers it over a restart: %v", err)
	}
	for _, r := range must(f.rome.People.Reservations(t.Context()))(t) {
		if r.Payload.State == api.Rejected {
			t.Errorf("it was asked again as %s", r.ID)
		}
	}
}

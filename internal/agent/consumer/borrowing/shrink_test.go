package borrowing

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// A reservation that names a number of pods ends. The pods of another one of the account, which
// names none, keep what is granted to them.
func TestPodsOfAnotherReservationStay(t *testing.T) {
	stays := &market.Reservation{ID: "r-1", Size: amounts.List{{Resource: "cpu", Value: 1000}}}
	ends := market.Reservation{ID: "r-2", State: api.Releasing,
		Size: amounts.List{{Resource: "cpu", Value: 1000}, {Resource: "pods", Value: 2}}}
	for what, late := range map[string][]bound{"what ends": nil, "what ends, one after the other": {{Reservation: &ends}}} {
		rest, err := keep([]bound{{Reservation: stays}}, late, []bound{{Reservation: &ends}})
		if pods := rest["pods"]; err != nil || pods.Value() != 110 {
			t.Errorf("%s leaves %s pods to the other reservation, %v", what, pods.String(), err)
		}
	}
}

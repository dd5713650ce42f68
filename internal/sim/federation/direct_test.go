package federation_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// A purchase goes to the seller's connector, also while the broker is reached: the broker has no
// part in it. Where the buyer says so, or where the two have not met, it goes to the broker.
func TestPurchasesGoToTheSeller(t *testing.T) {
	f := newFair(t)
	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	buys := func(name string, via api.Via) api.ResourceRequestStatus {
		request := api.Request{
			Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Digest: digest},
			Duration: &metav1.Duration{Duration: time.Hour},
		}
		must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: request, Via: via}))(t)
		var bound api.ResourceRequestStatus
		f.becomes(f.rome, name, func(now api.ResourceRequestStatus) bool { bound = now; return now.State == api.Reserved })
		return bound
	}
	atBroker := func(id string) bool {
		for _, r := range must(f.Operator.Reservations(t.Context()))(t) {
			if r.ID == id {
				return true
			}
		}
		return false
	}
	brokered := buys("brokered", api.ViaAuto) // the two have not met: the broker introduces them
	direct := buys("direct", api.ViaAuto)
	again := buys("again", api.ViaBroker)
	if !atBroker(again.Reservation) {
		t.Error("what the buyer sends to the broker is not there")
	}
	if atBroker(direct.Reservation) || !atBroker(brokered.Reservation) {
		t.Errorf("the broker has the direct one: %t, the other: %t",
			atBroker(direct.Reservation), atBroker(brokered.Reservation))
	}
	f.until("rome lists both", func() bool {
		listed := map[string]bool{}
		for _, r := range must(f.rome.People.Reservations(t.Context()))(t) {
			listed[r.ID] = true
		}
		return listed[direct.Reservation] && listed[brokered.Reservation]
	})
	f.until("the broker counts both as taken", func() bool {
		pool := must(f.Operator.Cluster(t.Context(), "milan"))(t).Payload.Pools[api.GeneralPool]
		left := pool.Available["cpu"]
		return left.Cmp(resource.MustParse("12")) <= 0
	})
}

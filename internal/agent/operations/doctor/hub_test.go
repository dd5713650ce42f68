package doctor

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// The doctor reports that a hub sells below cost: what it sold, against the same part of what it pays. It need not have
// sold all of it.
func TestSoldBelowCost(t *testing.T) {
	offer := func(seller, price string) *market.Offer {
		p := transporttest.NewParty(t, seller)
		o, err := trust.Offer(p.SignOffer("web", 1, transporttest.WebOffer(price)), p.Key.Public())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for price, want := range map[string]string{"0.10": "", "0.09": "customers pay 0.18 EUR an hour for what costs 0.20"} {
		s := market.New("hub")
		for _, r := range []*market.Reservation{
			{ID: "r-1", Consumer: "hub", Provider: "milan", Relend: true, Offer: offer("milan", "0.10")},
			{ID: "r-2", Consumer: "rome", Provider: "hub", Offer: offer("hub", price)},
			{ID: "r-3", Consumer: "hub", Provider: "oslo", Offer: offer("oslo", "9")}, // for itself
		} {
			units := int64(2)
			if r.ID == "r-1" {
				units = 6
			}
			r.State, r.Pool, r.Generation, r.Assignment = api.Reserved, api.GeneralPool, 1, "assignment"
			r.Size, r.Sale = amounts.List{{Resource: "cpu", Value: 1000 * units}}, &api.Sale{
				Offer: r.Offer.Digest, Plan: "small", Units: units}
			s.Apply(market.Event{Time: 1, Offer: r.Offer})
			s.Apply(market.Event{Time: 1, Reservation: &market.ReservationEvent{Reservation: r}})
		}
		found := findInHub(s, "hub")
		if want == "" && found != nil || want != "" && (len(found) != 1 || found[0].Detail != want ||
			found[0].Code != health.SoldBelowCost.Code) {
			t.Errorf("at %s: %+v", price, found)
		}
	}
	long := strings.Repeat("h", 42)
	if found := findInHub(market.New(long), long); len(found) != 1 || found[0].Code != health.HubIDTooLong.Code {
		t.Errorf("of a long ID: %+v", found)
	}
}

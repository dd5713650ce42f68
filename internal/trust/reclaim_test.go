package trust_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A contract is taken back by its seller's word alone, of just this contract, and with the notice
// that was agreed.
func TestReclaimed(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	offer, err := trust.Offer(milan.Sign(api.DocumentOffer,
		api.SignedOffer{Protocol: api.Protocol, Seller: "milan", Name: "web", Version: 1, Offer: api.OfferSpec{
			Plans: []api.Plan{{Name: "spot", Resources: api.Resources{"cpu": resource.MustParse("1")},
				Notice: &metav1.Duration{Duration: 10 * time.Minute}}},
		}}), milan.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	bought := &market.Reservation{ID: "r-1", Assignment: "signed",
		Consumer: "rome", Provider: "milan", Sale: &api.Sale{Offer: offer.Digest, Plan: "spot", Units: 1}, Offer: offer}
	now := time.Now()
	word := func(change func(*api.Reclaim)) api.Reclaim {
		w := api.Reclaim{Protocol: api.Protocol, Reservation: "r-1",
			Consumer: "rome", Provider: "milan", Assignment: clusterkey.Digest("signed").String(),
			Issued: transporttest.Seconds(now), Effective: transporttest.Seconds(now.Add(10 * time.Minute))}
		change(&w)
		return w
	}
	honest := word(func(*api.Reclaim) {})
	command, err := trust.Reclaimed(milan.Sign(api.DocumentReclaim, honest), bought, milan.Key.Public())
	if err != nil || command.ID != "r-1" || command.By != "milan" || command.At != market.At(honest.Effective.Time) {
		t.Errorf("%+v, %v", command, err)
	}
	firm := *bought
	firm.Sale, firm.Offer = nil, nil
	for name, c := range map[string]struct {
		document string
		of       *market.Reservation
	}{
		"by the buyer":              {rome.Sign(api.DocumentReclaim, honest), bought},
		"by a stranger of its name": {transporttest.NewParty(t, "milan").Sign(api.DocumentReclaim, honest), bought},
		"as another document":       {milan.Sign(api.DocumentEnd, honest), bought},
		"of another contract": {milan.Sign(api.DocumentReclaim,
			word(func(w *api.Reclaim) { w.Reservation = "r-2" })), bought},
		"of another assignment": {milan.Sign(api.DocumentReclaim,
			word(func(w *api.Reclaim) { w.Assignment = clusterkey.Digest("before").String() })), bought},
		"of no assignment": {milan.Sign(api.DocumentReclaim,
			word(func(w *api.Reclaim) { w.Assignment = "" })), bought},
		"of another buyer": {milan.Sign(api.DocumentReclaim,
			word(func(w *api.Reclaim) { w.Consumer = "oslo" })), bought},
		"with less notice": {milan.Sign(api.DocumentReclaim,
			word(func(w *api.Reclaim) { w.Issued = transporttest.Seconds(now.Add(time.Second)) })), bought},
		"in a later protocol":   {milan.Sign(api.DocumentReclaim, word(func(w *api.Reclaim) { w.Protocol++ })), bought},
		"of what has no notice": {milan.Sign(api.DocumentReclaim, honest), &firm},
		"of nothing":            {"", bought},
	} {
		if _, err := trust.Reclaimed(c.document, c.of, milan.Key.Public()); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: %v", name, err)
		}
	}
}

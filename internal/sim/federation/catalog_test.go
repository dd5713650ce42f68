package federation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// What a seller changes is in the copies of those who may see it at once, and stays there when
// everybody is away and the agent starts again.
func TestCatalogIsCopied(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	if _, err := f.milan.People.PutOffer(t.Context(), "web", webOffer("0.30")); err != nil {
		t.Fatal(err)
	}
	price := func(l api.Listing) string { return l.Offer.Plans[0].Price.Amount }
	f.until("oslo is shown the new price", func() bool {
		return price(must(f.oslo.People.Offer(t.Context(), "milan", "web"))(t).Payload) == "0.30"
	})
	copied := func() (api.Envelope[api.Listing], bool) {
		found, err := f.oslo.People.Catalog(t.Context(), api.CatalogQuery{Text: "WEB", For: 10 * time.Hour})
		return append(found, api.Envelope[api.Listing]{})[0], err == nil && len(found) == 1 && found[0].Payload.AsOf != nil
	}
	var l api.Envelope[api.Listing]
	f.until("oslo has the new price in its copy", func() bool { // which follows the broker
		f.Broker.Stop()
		f.until("oslo, which milan does not know, has a copy", func() (ok bool) { l, ok = copied(); return ok })
		if price(l.Payload) == "0.30" {
			return true
		}
		if err := f.Broker.Start(); err != nil {
			t.Fatal(err)
		}
		f.until("oslo is connected", func() bool { return must(f.oslo.People.Status(t.Context()))(t).Connected })
		return false
	})
	if got := l.Payload; price(got) != "0.30" || got.Fresh || got.Fading != api.Stale ||
		got.Plans["small"].Cost != "3.00" || time.Since(got.AsOf.Time) > time.Minute {
		t.Errorf("the copy shows %+v", got)
	}
	asOf := l.Payload.AsOf.Time
	for name, q := range map[string]api.CatalogQuery{
		"another word": {Text: "gpu"}, "another type": {Type: "gpu"}, "another seller": {Seller: "rome"}, "another region": {Region: "us"},
		"another currency": {Currency: "USD"}, "for too long": {For: 480 * time.Hour}, "what can be bought": {Available: true},
	} {
		if found, err := f.oslo.People.Catalog(t.Context(), q); err != nil || len(found) > 0 {
			t.Errorf("%s finds %d in the copy, %v", name, len(found), err)
		}
	}
	if _, err := f.oslo.People.Offer(t.Context(), "milan", "other"); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("an offer that is not in the copy: %v", err)
	}

	f.until("oslo's doctor says what does not work, and what does", func() bool {
		codes := map[string]string{}
		for _, p := range must(f.oslo.People.Diagnose(t.Context()))(t).Problems {
			codes[p.Code] = p.Detail
		}
		return strings.Contains(codes["WithoutBroker"], "bourse reserve") &&
			strings.Contains(codes["GoesOn"], "shows 1 offers")
	})
	f.StopMember("milan")
	f.StopMember("oslo")
	f.StartMember("oslo")
	f.until("the copy is there after a restart", func() (ok bool) { l, ok = copied(); return ok })
	if got := l.Payload.AsOf.Time; got.After(asOf.Add(time.Minute)) || price(l.Payload) != "0.30" {
		t.Errorf("it is as of %s, and was as of %s", got, asOf)
	}
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.StartMember("milan")
	f.until("what the broker shows is not the copy", func() bool {
		found, err := f.oslo.People.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && len(found) == 1 && found[0].Payload.AsOf == nil &&
			found[0].Payload.Fresh && found[0].Payload.Fading == ""
	})
}

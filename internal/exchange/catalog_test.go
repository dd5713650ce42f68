package exchange_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

// publishes puts a version of an offer on sale; nobody here asks who signed it.
func (x *running) publishes(seller, name string, version int64) {
	x.t.Helper()
	payload, err := json.Marshal(api.SignedOffer{Protocol: api.Protocol, Seller: seller, Name: name, Version: version,
		Offer: api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: resources("cpu", "1")}}}})
	if err != nil {
		x.t.Fatal(err)
	}
	offer, err := market.ReadOffer("e30." + base64.RawURLEncoding.EncodeToString(payload) + ".x")
	if err != nil {
		x.t.Fatal(err)
	}
	x.must(market.Publish{Offer: offer})
}

// follows opens a watch of the catalog, and says whether it begins with everything.
func (x *running) follows(cluster string, lineage string, after uint64) (*exchange.Watch, bool) {
	x.t.Helper()
	w := x.watch(cluster, "", 0)
	complete, err := w.FollowCatalog(context.Background(), lineage, after)
	if err != nil {
		x.t.Fatal(err)
	}
	return w, complete
}

// Who follows the catalog is told which sellers changed, each once; a token holds over a restart as
// far as the journal goes back.
func TestWhoChangedInTheCatalog(t *testing.T) {
	j := newMemory()
	x := founded(t, j, exchange.Options{})
	changed := func(w *exchange.Watch, want ...exchange.CatalogChange) {
		t.Helper()
		got, everything := w.Catalog()
		if everything || len(got) != len(want) {
			t.Errorf("changed %+v (everything: %t), want %+v", got, everything, want)
			return
		}
		for i := range want {
			if got[i].Seller != want[i].Seller || got[i].Lease != want[i].Lease {
				t.Errorf("changed %+v, want %+v", got, want)
			}
		}
	}
	w, complete := x.follows("rome", "", 0)
	if !complete {
		t.Error("the beginning is not everything")
	}
	x.publishes("paris", "web", 1)
	x.publishes("paris", "web", 2)
	told(t, w)
	changed(w, exchange.CatalogChange{Seller: "paris"})
	before := x.View().Revision
	x.must(market.Withdraw{Seller: "paris", Name: "web"})
	changed(w, exchange.CatalogChange{Seller: "paris"})
	changed(w)
	x.must(market.SetMember{Cluster: "rome", State: api.MemberSuspended}) // by what it is itself it may see others
	if _, everything := w.Catalog(); !everything {
		t.Error("its own record changed, and it is not told everything")
	}
	x.must(market.SetMember{Cluster: "rome", State: api.MemberActive})
	x.publishes("paris", "gpu", 3)
	lineage := x.Lineage()
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}

	x = start(t, j, exchange.Options{})
	w, complete = x.follows("rome", lineage, before)
	if complete {
		t.Error("after a restart the token is worth nothing")
	}
	changed(w, exchange.CatalogChange{Seller: "paris"})
	if _, complete = x.follows("rome", "another", before); !complete {
		t.Error("the token of another life is worth something")
	}
	if _, complete = x.follows("rome", lineage, x.View().Revision+1); !complete {
		t.Error("the token of a future that was lost is worth something")
	}
}

// Who is too far behind is told everything.
func TestTooFarBehindInTheCatalog(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	w, _ := x.follows("rome", "", 0)
	x.publishes("paris", "web", 1)
	at := x.View().Revision
	for range exchange.MaxRemembered + 1 {
		x.ForgetChange("paris")
	}
	if _, everything := w.Catalog(); !everything {
		t.Error("what is forgotten is not told again")
	}
	if _, complete := x.follows("rome", x.Lineage(), at-1); !complete {
		t.Error("a token from before is worth something")
	}
}

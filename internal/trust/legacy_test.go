package trust_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// A card that says that the broker signs is believed by those who said so, and by nobody else;
// nothing of it is pinned then. It never takes the place of a cluster's own key, which takes its
// place.
func TestMeetALegacyCard(t *testing.T) {
	x, deputy, own := books(t), transporttest.NewParty(t, "cluster-1"), transporttest.NewParty(t, "cluster-1")
	legacy := deputy.Sign(api.DocumentCard, api.Card{Cluster: "cluster-1",
		Key: deputy.Key.Public().String(), Number: 1, Legacy: true})
	for name, d := range map[string]trust.Demand{
		"nothing demanded": {}, "not legacy": {Legacy: func() bool { return false }}, "pinned": {Pinned: func() bool { return true }},
	} {
		told := error(nil)
		d.Met = func(_ string, _ clusterkey.PublicKey, err error) { told = err }
		if _, _, err := d.Meet(t.Context(), x, legacy, "cluster-1"); api.CodeOf(err) != api.CodeKeyUnconfirmed ||
			told == nil {
			t.Errorf("%s: %v, told %v", name, err, told)
		}
	}
	if _, err := trust.Key(t.Context(), x, "cluster-1"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("it was pinned: %v", err)
	}
	takes := trust.Demand{Legacy: func() bool { return true }}
	if _, key, err := takes.Meet(t.Context(), x, legacy, "cluster-1"); err != nil || key != deputy.Key.Public() {
		t.Fatal(err)
	}
	if _, key, err := takes.Meet(t.Context(), x, own.Card(api.Properties{}), "cluster-1"); err != nil ||
		key != own.Key.Public() {
		t.Fatalf("its own key: %v", err)
	}
	if _, _, err := takes.Meet(t.Context(), x, legacy, "cluster-1"); api.CodeOf(err) != api.CodeKeyChanged {
		t.Errorf("the broker's again: %v", err)
	}
	_ = x.Read(t.Context(), func(s *market.State) {
		if m := s.Member("cluster-1"); m.Legacy || len(m.Former) > 0 {
			t.Errorf("%+v", m)
		}
	})
}

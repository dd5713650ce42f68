package server_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// agreedBy is what two parties signed of 8 CPUs without this broker.
func agreedBy(consumer, provider *transporttest.Party, id string) api.Agreement {
	d := transporttest.NewDeal(consumer, provider, id, "8", time.Now())
	shown := d.Signed()
	return api.Agreement{Assignment: shown.Payload.Assignment, Acceptance: provider.Agree(*shown)}
}

// A key that was stolen before its cluster gave it up binds nothing afterwards: not for an
// accomplice, and not with the certificate that was stolen with it.
func TestAFormerKeyBindsNothing(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	stolenFromMilan, stolenFromRome := milan.Rotate(), rome.Rotate()
	milan.ShowCard(api.Properties{})
	rome.ShowCard(api.Properties{})
	vouched := func(a api.Agreement, by *transporttest.Party, say func(*api.Vouch)) api.Agreement {
		v := api.Vouch{Protocol: api.Protocol, Cluster: by.ID, Reservation: "r-new",
			Assignment: clusterkey.Digest(a.Assignment).String()}
		say(&v)
		a.Vouch = by.Sign(api.DocumentVouch, v)
		return a
	}
	asIs := func(*api.Vouch) {}
	byMilan, byRome := agreedBy(rome.Party, stolenFromMilan, "r-new"), agreedBy(stolenFromRome, milan.Party, "r-new")
	for name, c := range map[string]struct {
		as    *servertest.Member
		shown api.Agreement
	}{
		"an accomplice shows what milan's former key accepted":        {rome, byMilan},
		"an accomplice vouches for milan":                             {rome, vouched(byMilan, rome.Party, asIs)},
		"milan's certificate shows it":                                {milan, byMilan},
		"milan's certificate shows it, vouched for by the former key": {milan, vouched(byMilan, stolenFromMilan, asIs)},
		"an accomplice shows what rome's former key signed":           {milan, byRome},
		"rome's certificate shows it":                                 {rome, byRome},
		"vouched for in another cluster's name": {rome,
			vouched(byRome, rome.Party, func(v *api.Vouch) { v.Cluster = "milan" })},
		"vouched for as another reservation": {rome,
			vouched(byRome, rome.Party, func(v *api.Vouch) { v.Reservation = "r-old" })},
		"vouched for as another assignment": {rome,
			vouched(byRome, rome.Party, func(v *api.Vouch) { v.Assignment = "SHA256:AAAA" })},
		"vouched for in a later protocol": {rome,
			vouched(byRome, rome.Party, func(v *api.Vouch) { v.Protocol = api.Protocol + 1 })},
	} {
		if r, err := c.as.Adopt(t.Context(), "r-new", c.shown); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("%s: %s, %v", name, r.Payload.State, err)
		}
	}
	if left := f.Exchange.View().Listing("milan").Pool(api.GeneralPool).Available.Of("cpu"); left != 8000 {
		t.Errorf("milan, which accepted nothing, has %d of 8000 left at the broker", left)
	}
}

// What a key agreed to before it was given up stays agreed: its cluster vouches for it by the key
// that it has.
func TestAClusterVouchesForItsFormerKey(t *testing.T) {
	for _, who := range []string{"rome", "milan"} {
		f := servertest.Start(t, servertest.Options{})
		members := map[string]*servertest.Member{"rome": f.Join("rome"), "milan": f.Join("milan")}
		shown := agreedBy(members["rome"].Party, members["milan"].Party, "r-old")
		one := members[who]
		one.Rotate()
		one.ShowCard(api.Properties{})
		document := map[string]string{"rome": shown.Assignment, "milan": shown.Acceptance}[who]
		vouch, err := trust.Vouch(one.Key, who, "r-old", shown.Assignment, document)
		if err != nil {
			t.Fatal(err)
		}
		shown.Vouch = vouch
		if r, err := one.Adopt(t.Context(), "r-old", shown); err != nil || r.Payload.State != api.Reserved {
			t.Errorf("%s: %s, %v", who, r.Payload.State, err)
		}
	}
}

package market_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// spot is rome's offer of a core that it may take back with ten minutes' notice, or not.
func spot(t rapid.TB) *market.Offer {
	t.Helper()
	payload, err := json.Marshal(api.SignedOffer{Protocol: api.Protocol,
		Seller: "rome", Name: "web", Version: 1, Offer: api.OfferSpec{Plans: []api.Plan{
			{Name: "spot", Resources: resources("cpu", "1"), Notice: &metav1.Duration{Duration: 10 * time.Minute},
				Units: &api.Units{Min: 1, Max: 8}},
			{Name: "firm", Resources: resources("cpu", "1"), Units: &api.Units{Min: 1, Max: 8}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	offer, err := market.ReadOffer("e30." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln")
	if err != nil {
		t.Fatal(err)
	}
	offer.Digest = "SHA256:web"
	return offer
}

// sells takes a purchase to where both are bound.
func (d *testBroker) sells(id, plan string) {
	d.t.Helper()
	d.must(buying(id, "paris", plan, 1))
	d.must(market.Confirm{ID: id, Consumer: "paris", Generation: 1, Document: "doc"})
	d.must(market.Accept{ID: id, Provider: "rome", Generation: 1, Document: "yes"})
}

func TestReclaim(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Publish{Offer: spot(t)})
	d.sells("spot", "spot")
	d.sells("firm", "firm")
	d.must(buying("held", "paris", "spot", 1))
	at := noon + 600_000
	d.fails(api.CodeForbidden, market.Reclaim{ID: "firm", By: "rome", At: at, Document: "word"})
	d.fails(api.CodeForbidden, market.Reclaim{ID: "spot", By: "paris", At: at, Document: "word"})
	d.fails(api.CodeNotFound, market.Reclaim{ID: "spot", By: "milan", At: at, Document: "word"})
	// a broker that does not know the change yet
	d.fails(api.CodeNotFound, market.Reclaim{ID: "held", By: "rome", At: at, Document: "word"})
	d.must(market.Reclaim{ID: "spot", By: "rome", At: at, Document: "word"})
	for _, again := range []market.Reclaim{{ID: "spot", By: "rome", At: at, Document: "word"},
		{ID: "spot", By: "rome", At: noon + 1, Document: "sooner"}} {
		if out := d.must(again); len(out.Events) > 0 {
			t.Errorf("taken back twice: %s", dump(out.Events))
		}
	}
	d.must(market.Reassign{ID: "spot", Consumer: "paris", Generation: 2,
		Size: cpu(1), Units: 1, Until: noon + 7_200_000, Document: "longer"})
	d.must(market.Accept{ID: "spot", Provider: "rome", Generation: 2, Document: "yes, longer"})
	d.pass(10*time.Minute - time.Millisecond)
	if r := d.state.Reservation("spot"); r.State != api.Reserved {
		t.Errorf("it ends within the notice: %s", dump(r))
	}
	d.pass(time.Millisecond)
	if r := d.state.Reservation("spot"); r.State != api.Releasing || r.Reason != api.ReasonReclaimed || r.Breached() {
		t.Errorf("it goes on as %s", dump(r))
	}
	d.must(market.Release{ID: "firm", By: "rome", Generation: 1, Reason: api.ReasonRevokedByProvider, Document: "end"})
	if !d.state.Reservation("firm").Breached() {
		t.Error("who ends what is firm breaks no contract")
	}
}

// After any other commands and restarts, a reclaimed reservation ends neither before nor after the notice, nor
// after its own end.
func TestReclaimedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, now := newNode(t, ""), noon
		do := func(c market.Command) error { _, err := n.do(c, now); n.check(); return err }
		measure := n.open(resources("cpu", "12"), now)
		for _, c := range []market.Command{market.Publish{Offer: spot(t)}, buying("r", "paris", "spot", 1),
			market.Confirm{ID: "r", Consumer: "paris", Generation: 1,
				Document: "doc"}, market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "yes"}} {
			if err := do(c); err != nil {
				t.Fatal(err)
			}
		}
		said := market.Time(0)
		for i := range int64(rapid.IntRange(1, 40).Draw(t, "acts")) {
			r := n.state.Reservation("r")
			switch rapid.IntRange(0, 4).Draw(t, "act") {
			case 0:
				at := now + market.Time((10 * time.Minute).Milliseconds())
				if do(market.Reclaim{ID: "r", By: "rome", At: at, Document: fmt.Sprint("word ", i)}) == nil && said == 0 {
					said = at
				}
			case 1:
				until := now + market.Time(rapid.Int64Range(1, 5_000_000).Draw(t, "until"))
				_ = do(market.Reassign{ID: "r", Consumer: "paris", Generation: r.Latest() + 1,
					Size: cpu(1), Units: 1, Until: until, Document: fmt.Sprint("doc", i)})
			case 2:
				if c := r.Changing(); c != nil {
					_ = do(market.Accept{ID: "r", Provider: "rome", Generation: c.Generation, Document: fmt.Sprint("yes", i)})
				}
			case 3:
				n.restart(len(n.journal))
			default:
				now += market.Time(rapid.Int64Range(1, 900_000).Draw(t, "time"))
				_ = do(market.Tick{})
				_ = do(market.Tick{}) // after that of a change
				if r := n.state.Reservation("r"); r.Bound() && now >= r.EndsAt() {
					t.Fatalf("it goes on: %s", dump(r))
				}
			}
			measure(now)
			r = n.state.Reservation("r")
			if r.State == api.Releasing && r.Ended < r.EndsAt() {
				t.Fatalf("it ended too soon: %s", dump(r))
			} else if said != 0 && r.EndsAt() > said {
				t.Fatalf("it ends later than said: %s", dump(r))
			}
			if r.State == api.Releasing {
				return
			}
		}
	})
}

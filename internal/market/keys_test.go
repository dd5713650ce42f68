package market_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// led are former keys, oldest first.
func led(keys ...string) (former []market.Former) {
	for _, key := range keys {
		former = append(former, market.Former{Key: key, Fingerprint: "of " + key})
	}
	return former
}

// A member's card may show a successor of its key, and none that a former key names.
func TestPutCardOfASuccessor(t *testing.T) {
	d := newTestBroker(t)
	card := func(number int64, key string, former ...string) market.PutCard {
		return market.PutCard{Card: api.Card{Cluster: "rome", Key: key, Number: number},
			Signed: fmt.Sprint(key, number), Former: led(former...)}
	}
	d.must(card(1<<52, "k-rome"))
	d.fails(api.CodeConflict, card(1, "k-rome"))
	d.must(card(3, "k2", "k-rome")) // numbers count per key: who stole the former one cannot use them up
	d.fails(api.CodeConflict, card(2, "k2", "k-rome"))
	if m := d.state.Member("rome"); m.Key != "k2" || !slices.Equal(m.Former, led("k-rome")) {
		t.Errorf("known as %s", dump(m))
	}
	d.fails(api.CodeKeyChanged, card(4, "k-rome"))
	d.fails(api.CodeKeyChanged, card(4, "k-rome", "k2")) // back
	d.fails(api.CodeKeyChanged, card(4, "stolen", "k-rome"))
	d.must(card(4, "k2"))
	d.must(card(5, "k4", "k-rome", "k2", "k3"))
	d.must(token("t", ""))
	again := joining("t", "rome")
	again.Key = "k4"
	d.must(again)
	d.fails(api.CodeKeyChanged, card(6, "k2", "k4"))

	many := card(9, "k4")
	many.Card.Rotations = make([]string, api.MaxRotations+1)
	d.fails(api.CodeInvalid, many)
	many.Card.Rotations = []string{string(make([]byte, 2000))}
	d.fails(api.CodeInvalid, many)
}

// If a party gets a new key, its holds, signed or not, are signed again at the same provider. Bound reservations
// and the holds of others stay.
func TestWhatIsHeldIsSignedAnew(t *testing.T) {
	for _, rotates := range []string{"rome", "paris"} {
		t.Run(rotates, func(t *testing.T) {
			d := newTestBroker(t)
			d.held("unsigned", 1)
			d.signed("signed", 1)
			d.reserved("bound", 1)
			elsewhere := request("elsewhere", 1)
			elsewhere.Consumer, elsewhere.Candidates = "milan", []string{"rome"}
			if rotates == "rome" {
				elsewhere.Consumer, elsewhere.Candidates = "paris", []string{"milan"}
			}
			d.must(elsewhere)
			d.must(market.Confirm{ID: "elsewhere", Consumer: elsewhere.Consumer, Generation: 1, Document: "a"})
			before := d.available("rome")
			d.must(market.PutCard{Card: api.Card{Cluster: rotates, Key: "k2", Number: 1},
				Signed: "s", Former: led("k-" + rotates)})
			d.fails(api.CodeConflict, market.Confirm{ID: "unsigned", Consumer: "paris",
				Generation: 1, Document: "by the former key"})
			d.fails(api.CodeConflict, market.Accept{ID: "signed", Provider: "rome", Generation: 1, Document: "late"})
			d.pass(0)
			for id, want := range map[string]int64{"unsigned": 2, "signed": 2, "bound": 1, "elsewhere": 1} {
				r := d.state.Reservation(id)
				if r.Generation != want || (r.Assignment == "") != (id == "unsigned" || id == "signed") {
					t.Errorf("%s: %s", id, dump(r))
				}
			}
			d.want("signed", api.Held, "", "rome", before)
			d.fails(api.CodeNotFound, market.Accept{ID: "signed", Provider: "rome", Generation: 1, Document: "late"})
			d.must(market.Confirm{ID: "signed", Consumer: "paris", Generation: 2, Document: "again"})
			d.must(market.Accept{ID: "signed", Provider: "rome", Generation: 2, Document: "yes"})
		})
	}
}

// However keys are shown and named, by a cluster, by who stole its former keys, and by admins: a
// pinned key only ever gives way to one that it leads to, or that an admin or a root named; a key
// that was given up never comes back; and what is confirmed was named, or comes from what was.
func TestKeysOnlyGoForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode(t, "rome")
		keys := []string{"k0"} // as the cluster really has them, oldest first
		given := map[string]bool{}
		words := map[string]bool{}
		for i := range rapid.IntRange(1, 40).Draw(t, "acts") {
			m := n.state.Member("milan")
			if m == nil {
				m = &market.Member{}
			}
			at := rapid.IntRange(0, len(keys)-1).Draw(t, "key")
			pin := market.Pin{Cluster: "milan", Key: keys[at], Former: led(keys[rapid.IntRange(0, at).Draw(t, "cut"):at]...)}
			switch rapid.SampledFrom([]string{"rotate", "show", "steal", "pose", "word", "forget"}).Draw(t, "act") {
			case "rotate":
				keys = append(keys, fmt.Sprint("k", len(keys)))
				continue
			case "steal": // a former key names another successor
				if at == len(keys)-1 {
					continue
				}
				pin.Key, pin.Former = fmt.Sprint("stolen", i), append(pin.Former, led(keys[at])...)
			case "pose":
				pin.Key, pin.Former = fmt.Sprint("posed", i), nil
			case "word":
				words["of "+keys[at]] = true
				_, _ = n.do(market.Trust{Cluster: "milan", Fingerprint: "of " + keys[at]}, noon)
				continue
			case "forget":
				_, _ = n.do(market.Trust{Cluster: "milan"}, noon)
				continue
			}
			pin.Fingerprint = "of " + pin.Key
			_, err := n.do(pin, noon)
			now := n.state.Member("milan")
			if now == nil || err != nil {
				continue
			}
			leads := slices.ContainsFunc(pin.Former, func(f market.Former) bool { return f.Key == m.Key })
			named := m.Trusted != "" && (m.Trusted == pin.Fingerprint ||
				slices.Contains(pin.Former, market.Former{Key: m.Trusted[3:], Fingerprint: m.Trusted}))
			switch {
			case now.Key != pin.Key:
				t.Fatalf("%s was believed, pinned is %s", pin.Key, now.Key)
			case given[now.Key]:
				t.Fatalf("%s came back", now.Key)
			case m.Key != "" && m.Key != now.Key && !leads && !named:
				t.Fatalf("%s gave way to %s", m.Key, now.Key)
			case m.Trusted != "" && !now.Confirmed, now.Confirmed && !words[now.Trusted]:
				t.Fatalf("%s is %s", now.Key, dump(now))
			}
			for _, f := range now.Former {
				given[f.Key] = true
			}
		}
	})
}

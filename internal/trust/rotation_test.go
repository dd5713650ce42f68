package trust_test

import (
	"crypto/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// shows is a card of a party with other rotations than its own.
func shows(p *transporttest.Party, rotations ...string) string {
	other := *p
	other.Rotations = rotations
	return other.Card(api.Properties{})
}

// rotation is one that a key signs.
func rotation(t testing.TB, by, to *transporttest.Party, cluster string) string {
	t.Helper()
	document, err := trust.Rotate(by.Key, to.Key.Public(), cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func fingerprintOf(p *transporttest.Party) string { return p.Key.Public().Fingerprint().String() }

func member(t testing.TB, x *exchange.Exchange, cluster string) (m *market.Member) {
	t.Helper()
	if err := x.Read(t.Context(), func(s *market.State) { m = s.Member(cluster) }); err != nil {
		t.Fatal(err)
	}
	return m
}

// Who has pinned a key follows its successors, one or several at once, and never goes back: a
// former key is worth nothing, and can name no other successor.
func TestASuccessorIsBelieved(t *testing.T) {
	for name, steps := range map[string]int{"one": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			x, milan := books(t), transporttest.NewParty(t, "milan")
			first := milan.Card(api.Properties{})
			if _, _, err := meet(t.Context(), x, first, "milan"); err != nil {
				t.Fatal(err)
			}
			var before []*transporttest.Party
			for range steps {
				before = append(before, milan.Rotate())
			}
			if _, key, err := meet(t.Context(), x, milan.Card(api.Properties{}), "milan"); err != nil ||
				key != milan.Key.Public() {
				t.Fatalf("the successor: %v", err)
			}
			if _, _, err := meet(t.Context(), x, first, "milan"); api.CodeOf(err) != api.CodeKeyChanged {
				t.Errorf("an old card: %v", err)
			}
			for i, thief := range before {
				stolen := *thief
				for what, card := range map[string]string{"a new card": stolen.Card(api.Properties{}),
					"another successor": func() string { stolen.Rotate(); return stolen.Card(api.Properties{}) }()} {
					if _, _, err := meet(t.Context(), x, card, "milan"); api.CodeOf(err) != api.CodeKeyChanged {
						t.Errorf("%s by former key %d: %v", what, i, err)
					}
				}
			}
			keys, err := trust.Keys(t.Context(), x, "milan")
			if err != nil || len(keys) != steps+1 || keys[0] != milan.Key.Public() || keys[steps] != before[0].Key.Public() {
				t.Errorf("%d keys are known, %v", len(keys), err)
			}
		})
	}
}

// A chain that does not lead, signature by signature, from the pinned key to the one that is shown is none.
func TestNoSuccessor(t *testing.T) {
	a, b, c := transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "milan")
	forged := c.Sign(api.DocumentRotation, api.Rotation{Protocol: 1,
		Cluster: "milan", From: a.Key.Public().String(), To: c.Key.Public().String()})
	long := []string{rotation(t, a, b, "milan")}
	last := b
	for range api.MaxRotations {
		next := transporttest.NewParty(t, "milan")
		long, last = append(long, rotation(t, last, next, "milan")), next
	}
	for name, card := range map[string]string{
		"nothing":                shows(b),
		"nonsense":               shows(b, "x", "", "a.b.c"),
		"a forged link":          shows(c, forged),
		"a link with a gap":      shows(c, rotation(t, a, b, "milan")),
		"the links in disorder":  shows(c, rotation(t, b, c, "milan"), rotation(t, a, b, "milan")),
		"one of another cluster": shows(b, rotation(t, a, b, "oslo")),
		"one of another kind": shows(b, a.Sign(api.DocumentEnd,
			api.Rotation{Protocol: 1, Cluster: "milan", From: a.Key.Public().String(), To: b.Key.Public().String()})),
		"one to another key":     shows(c, rotation(t, a, b, "milan")),
		"more than may be shown": shows(last, long...),
	} {
		x := books(t)
		if _, _, err := meet(t.Context(), x, a.Card(api.Properties{}), "milan"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := meet(t.Context(), x, card, "milan"); api.CodeOf(err) != api.CodeKeyChanged {
			t.Errorf("%s: %v", name, err)
		}
		if key, err := trust.Key(t.Context(), x, "milan"); err != nil || key != a.Key.Public() {
			t.Errorf("%s: pinned is %s, %v", name, key, err)
		}
	}
	// A loop leads nowhere: neither back to a key that was given up, nor for ever.
	x := books(t)
	ab, ba := rotation(t, a, b, "milan"), rotation(t, b, a, "milan")
	for _, step := range []struct {
		card string
		want api.Code
	}{
		{shows(a), ""}, {shows(b, ab), ""}, {shows(a, ab, ba), api.CodeKeyChanged}, {shows(b, ab, ba, ab),
			""}, {shows(c, ab, ba, ab), api.CodeKeyChanged},
	} {
		if _, _, err := meet(t.Context(), x, step.card, "milan"); err == nil && step.want != "" ||
			err != nil && api.CodeOf(err) != step.want {
			t.Errorf("%v, want %q", err, step.want)
		}
	}
}

// What the admin said of a key holds for its successors, whether it was met before or not; to name
// the old key again, after it was succeeded, brings it not back.
func TestWhatAnAdminConfirmedStaysConfirmed(t *testing.T) {
	strict := trust.Demand{Pinned: func() bool { return true }}
	for name, met := range map[string]bool{"met before": true, "not met before": false} {
		t.Run(name, func(t *testing.T) {
			x, milan := books(t), transporttest.NewParty(t, "milan")
			says := func(fingerprint string) {
				t.Helper()
				if _, err := x.Do(t.Context(), market.Trust{Cluster: "milan", Fingerprint: fingerprint}); err != nil {
					t.Fatal(err)
				}
			}
			meets := func(card string, want api.Code) {
				t.Helper()
				if _, _, err := strict.Meet(t.Context(), x, card, "milan"); err == nil && want != "" ||
					err != nil && api.CodeOf(err) != want {
					t.Errorf("%v, want %q", err, want)
				}
			}
			says(fingerprintOf(milan))
			if met {
				meets(milan.Card(api.Properties{}), "")
			}
			old := milan.Rotate()
			meets(milan.Card(api.Properties{}), "")
			if m := member(t, x, "milan"); !m.Confirmed || m.Trusted != fingerprintOf(old) {
				t.Errorf("%+v", m)
			}
			thief := *old
			thief.Rotate()
			refused := func() {
				t.Helper()
				meets(old.Card(api.Properties{}), api.CodeKeyChanged)
				meets(thief.Card(api.Properties{}), api.CodeKeyChanged)
				meets(milan.Card(api.Properties{}), "")
			}
			refused()
			says(fingerprintOf(milan)) // as the message of the Peer says
			refused()
			says(fingerprintOf(old))
			if m := member(t, x, "milan"); !m.Confirmed || m.Key != milan.Key.Public().String() {
				t.Errorf("%+v", m)
			}
			refused()
			says("")
			says(fingerprintOf(old)) // as when the object was deleted and made again
			refused()
			milan.Rotate()
			meets(milan.Card(api.Properties{}), "")
			next := transporttest.NewParty(t, "milan") // set up again
			meets(next.Card(api.Properties{}), api.CodeKeyChanged)
			says(fingerprintOf(next))
			meets(next.Card(api.Properties{}), "")
		})
	}
}

// A root's word holds for the successors of the key that it names; a newer word of a former key
// does not bring it, or what it signs, back.
func TestWhatARootEndorsedStaysEndorsed(t *testing.T) {
	x, root, milan := books(t), transporttest.NewParty(t, "root"), transporttest.NewParty(t, "milan")
	strict := trust.Demand{Pinned: func() bool { return true }, Roots: []clusterkey.PublicKey{root.Key.Public()}}
	endorsed := func(named *transporttest.Party, minute int) string {
		return root.Sign(api.DocumentEndorsement, api.Endorsement{
			Protocol: 1, Cluster: "milan", Fingerprint: fingerprintOf(named),
			Issued: transporttest.Seconds(time.Now().Add(time.Duration(minute) * time.Minute)), Expires: transporttest.Seconds(time.Now().Add(time.Hour)),
		})
	}
	meets := func(what string, p *transporttest.Party, endorsement string, want api.Code) {
		t.Helper()
		card := p.Sign(api.DocumentCard, api.Card{Cluster: "milan",
			Key: p.Key.Public().String(), Endorsement: endorsement, Rotations: p.Rotations})
		if _, _, err := strict.Meet(t.Context(), x, card, "milan"); err == nil && want != "" ||
			err != nil && api.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	first := endorsed(milan, -30)
	meets("the first", milan, first, "")
	old := milan.Rotate()
	meets("its successor", milan, first, "")
	renewed := endorsed(old, -20)
	thief := *old
	thief.Rotate()
	meets("the old one, endorsed again", old, renewed, api.CodeKeyChanged)
	meets("another successor of it", &thief, renewed, api.CodeKeyChanged)
	meets("the successor, with the old one endorsed again", milan, renewed, "")
	meets("a stranger, endorsed later", &thief, endorsed(&thief, -10), "")
}

// What a card's news is needed for: a successor is met, a stranger is told of, an old card and a
// cluster that nobody met are not.
func TestGreet(t *testing.T) {
	x, milan := books(t), transporttest.NewParty(t, "milan")
	told := 0
	d := trust.Demand{Met: func(string, clusterkey.PublicKey, error) { told++ }}
	greets := func(what, card string, times int, pinned *transporttest.Party) {
		t.Helper()
		d.Greet(t.Context(), x, card, "milan")
		key, err := trust.Key(t.Context(), x, "milan")
		if told != times || pinned != nil && (err != nil || key != pinned.Key.Public()) || pinned == nil && err == nil {
			t.Errorf("%s: told %d times, pinned %s, %v", what, told, key, err)
		}
	}
	old := *milan
	greets("not met", milan.Card(api.Properties{}), 0, nil)
	if _, _, err := meet(t.Context(), x, milan.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	greets("known", milan.Card(api.Properties{}), 0, milan)
	greets("no card", "", 0, milan)
	card := func(namespaces int32) string {
		return milan.Sign(api.DocumentCard, api.Card{Cluster: milan.ID, Key: milan.Key.Public().String(),
			MaxNamespaces: namespaces})
	}
	greets("another number of namespaces", card(3), 1, milan)
	greets("the same number", card(3), 1, milan)
	told = 0
	milan.Rotate()
	greets("a successor", milan.Card(api.Properties{}), 1, milan)
	greets("an old card", old.Card(api.Properties{}), 1, milan)
	greets("a stranger", transporttest.NewParty(t, "milan").Card(api.Properties{}), 2, milan)
}

// An end by a former key counts for what that key agreed to, and for nothing else.
func TestParties(t *testing.T) {
	x, milan, oslo := books(t), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "oslo")
	oldMilan, oldOslo := milan.Rotate(), oslo.Rotate()
	for _, p := range []*transporttest.Party{milan, oslo} {
		if _, _, err := meet(t.Context(), x, p.Card(api.Properties{}), p.ID); err != nil {
			t.Fatal(err)
		}
	}
	end := func(r *market.Reservation, p *transporttest.Party) string {
		return p.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: "r",
			Assignment: clusterkey.Digest(r.Assignment).String(), Generation: 1, By: p.ID, Reason: api.ReasonReleased})
	}
	agreed := func(consumer, provider *transporttest.Party) *market.Reservation {
		return &market.Reservation{ID: "r", Generation: 1, Consumer: "milan", Provider: "oslo",
			Assignment: consumer.Sign(api.DocumentAssignment,
				api.Assignment{}), Acceptance: provider.Sign(api.DocumentAcceptance, api.Acceptance{})}
	}
	for name, c := range map[string]struct {
		r    *market.Reservation
		by   *transporttest.Party
		want bool
	}{
		"the consumer's":               {agreed(oldMilan, oldOslo), milan, true},
		"the provider's":               {agreed(oldMilan, oldOslo), oslo, true},
		"the consumer's former":        {agreed(oldMilan, oslo), oldMilan, true},
		"the provider's former":        {agreed(milan, oldOslo), oldOslo, true},
		"the consumer's former, since": {agreed(milan, oldOslo), oldMilan, false},
		"the provider's former, since": {agreed(oldMilan, oslo), oldOslo, false},
		"a stranger's":                 {agreed(oldMilan, oldOslo), transporttest.NewParty(t, "milan"), false},
		"a former one's of what is none": {&market.Reservation{ID: "r", Consumer: "milan", Provider: "oslo"},
			oldMilan, false},
	} {
		if _, ok := trust.EndSigned(end(c.r, c.by), c.r, trust.Parties(t.Context(), x, c.r)); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// For any rotations in any order, a former key is one that signed, step by step, towards the shown key.
func TestFormerIsProven(t *testing.T) {
	parties := make([]*transporttest.Party, 4)
	links := map[[2]int]string{}
	for i := range parties {
		parties[i] = transporttest.NewParty(t, "milan")
	}
	for i := range parties {
		for j := range parties {
			links[[2]int{i, j}] = rotation(t, parties[i], parties[j], "milan")
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		shown := rapid.IntRange(0, 3).Draw(t, "shown")
		var chain []string
		var steps [][2]int
		for range rapid.IntRange(0, 6).Draw(t, "length") {
			step := [2]int{rapid.IntRange(0, 3).Draw(t, "from"), rapid.IntRange(0, 3).Draw(t, "to")}
			chain, steps = append(chain, links[step]), append(steps, step)
		}
		at, seen, want := shown, map[int]bool{shown: true}, []string{}
		for i := len(steps) - 1; i >= 0 && steps[i][1] == at && !seen[steps[i][0]]; i-- {
			at = steps[i][0]
			seen[at] = true
			want = append([]string{parties[at].Key.Public().String()}, want...)
		}
		got := trust.Former("milan", parties[shown].Key.Public(), chain)
		if len(got) != len(want) {
			t.Fatalf("%v of %v to %d: %v", got, steps, shown, want)
		}
		for i := range got {
			if got[i].Key != want[i] {
				t.Fatalf("%v of %v to %d: %v", got, steps, shown, want)
			}
		}
	})
}

// That a key signed one of the rotations is found at one signature's cost, and only of the cluster
// that is asked for.
func TestLeaves(t *testing.T) {
	var keys []*clusterkey.Key
	for range 4 {
		key, err := clusterkey.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	var rotations []string
	for i := range 2 {
		word, err := trust.Rotate(keys[i], keys[i+1].Public(), "rome", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		rotations = append(rotations, word)
	}
	for i, want := range []bool{true, true, false, false} {
		if got := trust.SignedRotation("rome", keys[i].Public().String(), rotations); got != want {
			t.Errorf("key %d: %t", i, got)
		}
	}
	if trust.SignedRotation("milan", keys[0].Public().String(), rotations) ||
		trust.SignedRotation("rome", "", rotations) || trust.SignedRotation("rome", keys[0].Public().String(), []string{rotations[0] + "x"}) {
		t.Error("another cluster's, no key's or a changed rotation counts")
	}
}

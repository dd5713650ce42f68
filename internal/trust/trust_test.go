package trust_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// books are rome's, to pin keys in.
func books(t *testing.T) *exchange.Exchange {
	t.Helper()
	x := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	return x
}

// meet is by one who demands nothing. Check says beforehand what it returns.
func meet(ctx context.Context, x *exchange.Exchange, card, cluster string) (*api.Card, clusterkey.PublicKey, error) {
	_, before := trust.Demand{}.Check(ctx, x, card, cluster)
	met, key, err := trust.Demand{}.Meet(ctx, x, card, cluster)
	if api.CodeOf(before) != api.CodeOf(err) {
		return nil, key, fmt.Errorf("Check returns %v, Meet %v", before, err)
	}
	return met, key, err
}

// The first contact pins; the same key is known again; any other is KeyChanged, for good.
func TestMeet(t *testing.T) {
	x, milan, impostor := books(t), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "milan")
	if _, err := trust.Key(t.Context(), x, "milan"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("before the first contact: %v", err)
	}
	for range 2 {
		card, key, err := meet(t.Context(), x, milan.Card(api.Properties{Region: "eu"}), "milan")
		if err != nil || card.Properties.Region != "eu" || key != milan.Key.Public() {
			t.Fatalf("%+v, %v", card, err)
		}
	}
	if _, _, err := meet(t.Context(), x, impostor.Card(api.Properties{}), "milan"); api.CodeOf(err) != api.CodeKeyChanged {
		t.Errorf("another key: %v", err)
	}
	if key, err := trust.Key(t.Context(), x, "milan"); err != nil || key != milan.Key.Public() {
		t.Errorf("the pinned key is %s, %v", key, err)
	}
}

// A card that is not what it says is nobody's, and pins nothing.
func TestMeetWithABadCard(t *testing.T) {
	x, milan, oslo := books(t), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "oslo")
	good := milan.Card(api.Properties{})
	for name, card := range map[string]string{
		"none":               "",
		"not a document":     "a.b.c",
		"without its end":    good[:len(good)-10],
		"another cluster's":  oslo.Card(api.Properties{}),
		"with another's key": oslo.Sign(api.DocumentCard, api.Card{Cluster: "milan", Key: milan.Key.Public().String()}),
		"with no key":        milan.Sign(api.DocumentCard, api.Card{Cluster: "milan"}),
		"of another kind":    milan.Sign(api.DocumentEnd, api.Card{Cluster: "milan", Key: milan.Key.Public().String()}),
		"with an escape":     milan.Card(api.Properties{Region: "\x1b[2J"}),
	} {
		if _, _, err := meet(t.Context(), x, card, "milan"); api.CodeOf(err) != api.CodeBadSignature {
			t.Errorf("a card that is %s: %v", name, err)
		}
	}
	if _, err := trust.Key(t.Context(), x, "milan"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("something was pinned: %v", err)
	}
}

// Where the admin demands it, a key is only believed that was confirmed; a broker that shows
// another key from the first contact on is found out.
func TestMeetWhereKeysMustBeConfirmed(t *testing.T) {
	x, milan, impostor := books(t), transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "milan")
	var told error
	strict := trust.Demand{Pinned: func() bool { return true },
		Met: func(_ string, _ clusterkey.PublicKey, err error) { told = err }}
	meets := func(p *transporttest.Party, want api.Code) {
		t.Helper()
		_, _, err := strict.Meet(t.Context(), x, p.Card(api.Properties{}), "milan")
		if told != err || err == nil && want != "" || err != nil && api.CodeOf(err) != want {
			t.Errorf("%v, told %v, want %s", err, told, want)
		}
	}
	meets(impostor, api.CodeKeyUnconfirmed)
	if _, err := x.Do(t.Context(), market.Trust{Cluster: "milan",
		Fingerprint: milan.Key.Public().Fingerprint().String()}); err != nil {
		t.Fatal(err)
	}
	meets(impostor, api.CodeKeyChanged)
	meets(milan, "")
	meets(impostor, api.CodeKeyChanged)
}

// A root that the admin trusts confirms keys, for its cluster and its time; it may name another key
// later, and never goes back to the one before.
func TestEndorsedByARoot(t *testing.T) {
	x, root, other := books(t), transporttest.NewParty(t, "root"), transporttest.NewParty(t, "other")
	old, next := transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "milan")
	strict := trust.Demand{Pinned: func() bool { return true },
		Roots: []clusterkey.PublicKey{other.Key.Public(), root.Key.Public()}}
	now := time.Now().Truncate(time.Second)
	endorsed := func(p *transporttest.Party, by *transporttest.Party, change func(*api.Endorsement)) string {
		e := api.Endorsement{
			Protocol: api.Protocol, Cluster: "milan", Fingerprint: p.Key.Public().Fingerprint().String(),
			Issued: metav1.NewTime(now.Add(-time.Hour)), Expires: metav1.NewTime(now.Add(time.Hour)),
		}
		change(&e)
		return p.Sign(api.DocumentCard, api.Card{Cluster: "milan",
			Key: p.Key.Public().String(), Endorsement: by.Sign(api.DocumentEndorsement, e)})
	}
	meets := func(what, card string, want api.Code) {
		t.Helper()
		if _, _, err := strict.Meet(t.Context(), x, card, "milan"); err == nil && want != "" ||
			err != nil && api.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	same := func(*api.Endorsement) {}
	meets("by a stranger", endorsed(old, transporttest.NewParty(t, "stranger"), same), api.CodeKeyUnconfirmed)
	meets("by itself", endorsed(old, old, same), api.CodeKeyUnconfirmed)
	meets("over", endorsed(old, root, func(e *api.Endorsement) { e.Expires = e.Issued }), api.CodeKeyUnconfirmed)
	meets("of another cluster", endorsed(old, root, func(e *api.Endorsement) { e.Cluster = "rome" }),
		api.CodeKeyUnconfirmed)
	meets("of another key", endorsed(old, root,
		func(e *api.Endorsement) { e.Fingerprint = next.Key.Public().Fingerprint().String() }), api.CodeKeyUnconfirmed)
	meets("by the root", endorsed(old, root, same), "")
	meets("another key, endorsed no later", endorsed(next, root, same), api.CodeKeyChanged)
	meets("another key, endorsed later", endorsed(next, root,
		func(e *api.Endorsement) { e.Issued = metav1.NewTime(e.Issued.Add(time.Minute)) }), "")
	meets("the old one again", endorsed(old, root, same), api.CodeKeyChanged)
}

// An end counts for the assignment that it names, if one signed it who may end that.
func TestEndSigned(t *testing.T) {
	milan, oslo := transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "oslo")
	r := &market.Reservation{ID: "r", Consumer: "milan", Provider: "oslo", Generation: 2, Assignment: "of today",
		Change: &market.Change{Generation: 3, Assignment: "of tomorrow"}}
	end := func(id, assignment string, reason api.Reason) string {
		return milan.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: id,
			Assignment: clusterkey.Digest(assignment).String(), Generation: 9, By: "milan", Reason: reason})
	}
	for name, c := range map[string]struct {
		document string
		signed   bool
		reason   api.Reason
	}{
		"of what binds":          {end("r", "of today", api.ReasonReleased), true, api.ReasonReleased},
		"of its change":          {end("r", "of tomorrow", api.ReasonReleased), true, api.ReasonReleased},
		"of an earlier one":      {end("r", "of yesterday", api.ReasonReleased), false, ""},
		"of no assignment":       {end("r", "", api.ReasonReleased), false, ""},
		"of another reservation": {end("q", "of today", api.ReasonReleased), false, ""},
		"as before 2026-11-23": {milan.Sign(api.DocumentEnd,
			api.End{Protocol: 1, Reservation: "r", Generation: 9, By: "milan"}), false, ""},
		"for a reason unknown":    {end("r", "of today", "Because"), true, ""},
		"in the provider's words": {end("r", "of today", api.ReasonRevokedByProvider), true, api.ReasonReleased},
		"in the provider's name": {milan.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: "r", By: "oslo",
			Assignment: clusterkey.Digest("of today").String()}), false, ""},
		"in nobody's name": {milan.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: "r",
			Assignment: clusterkey.Digest("of today").String()}), false, ""},
		"nothing": {"", false, ""},
	} {
		keys := map[string][]clusterkey.PublicKey{"oslo": {oslo.Key.Public()}, "milan": {milan.Key.Public()}}
		end, signed := trust.EndSigned(c.document, r, keys)
		if signed != c.signed || end.Reason != c.reason {
			t.Errorf("%s: %+v, %v", name, end, signed)
		}
		delete(keys, "milan")
		if _, signed := trust.EndSigned(c.document, r, keys); signed {
			t.Errorf("%s: it counts although nobody of these signed it", name)
		}
	}
}

// Stored texts of others are short and printable. Texts that are so already stay the same.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "no room", "\x1b[2J", "größer", "\xff", strings.Repeat("ü", 2000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kept := trust.Text(text)
		if len(kept) > 1100 || !utf8.ValidString(kept) || strings.ContainsAny(kept, "\x1b\x00\n") ||
			trust.Text(kept) != kept {
			t.Errorf("%q becomes %q", text, kept)
		}
	})
}

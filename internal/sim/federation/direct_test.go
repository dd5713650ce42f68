package federation_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// A purchase goes to the seller's connector, also while the broker is reached: the broker has no
// part in it. Where the buyer says so, or where the two have not met, it goes to the broker.
func TestPurchasesGoToTheSeller(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	buys := func(name string, via api.Via) api.ResourceRequestStatus {
		request := api.Request{
			Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Digest: digest},
			Duration: &metav1.Duration{Duration: time.Hour},
		}
		must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: request, Via: via}))(t)
		var bound api.ResourceRequestStatus
		f.becomes(f.rome, name, func(now api.ResourceRequestStatus) bool { bound = now; return now.State == api.Reserved })
		return bound
	}
	atBroker := func(id string) bool {
		for _, r := range must(f.Operator.Reservations(t.Context()))(t) {
			if r.ID == id {
				return true
			}
		}
		return false
	}
	brokered := buys("brokered", api.ViaAuto) // the two have not met: the broker introduces them
	direct := buys("direct", api.ViaAuto)
	again := buys("again", api.ViaBroker)
	if !atBroker(again.Reservation) {
		t.Error("what the buyer sends to the broker is not there")
	}
	if atBroker(direct.Reservation) || !atBroker(brokered.Reservation) {
		t.Errorf("the broker has the direct one: %t, the other: %t",
			atBroker(direct.Reservation), atBroker(brokered.Reservation))
	}
	f.until("rome lists both", func() bool {
		listed := map[string]bool{}
		for _, r := range must(f.rome.People.Reservations(t.Context()))(t) {
			listed[r.ID] = true
		}
		return listed[direct.Reservation] && listed[brokered.Reservation]
	})
	f.until("the broker counts both as taken", func() bool {
		pool := must(f.Operator.Cluster(t.Context(), "milan"))(t).Payload.Pools[api.GeneralPool]
		left := pool.Available["cpu"]
		return left.Cmp(resource.MustParse("12")) <= 0
	})
}

// strangers are rome and milan, which sells. The broker knows neither.
func strangers(t *testing.T) *fair {
	t.Helper()
	f := &fair{t: t,
		rome: &federation.Member{Options: sim.Options{Name: "rome", Nodes: 1}, Alone: true},
		milan: &federation.Member{Options: sim.Options{Name: "milan", Nodes: 2, CPU: 8, Memory: 32}, Alone: true, Connector: true,
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}},
			Offers:  map[string]api.OfferSpec{"web": webOffer("0.10")}},
	}
	ctx, stop := context.WithCancel(t.Context())
	f.Federation = must(federation.Start(ctx, t.TempDir(), slog.New(slog.DiscardHandler), f.rome, f.milan))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })
	for _, m := range f.Members {
		f.until("the agent of "+m.Name+" listens", func() bool { _, err := m.People.Status(t.Context()); return err == nil })
	}
	return f
}

// fingerprint is what a member's `bourse status` says.
func (f *fair) fingerprint(m *federation.Member) string {
	f.t.Helper()
	return must(m.People.Status(f.t.Context()))(f.t).Fingerprint
}

// trusts returns what the Peer of a cluster says of its key.
func (f *fair) trusts(m *federation.Member, cluster string) metav1.Condition {
	f.t.Helper()
	for _, p := range must(m.People.Peers(f.t.Context()))(f.t) {
		if c := meta.FindStatusCondition(p.Payload.Status.Conditions, api.ConditionTrusted); p.ID == cluster && c != nil {
			return *c
		}
	}
	return metav1.Condition{}
}

// Two clusters without a broker, whose admins name each other's key, and the seller's connector: the catalog
// can be read, and the first purchase is made, resized and ended.
func TestFirstContactWithoutABroker(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.Broker.Stop()
	ctx := t.Context()
	must(f.rome.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	f.until("rome says that milan does not let it in", func() bool {
		c := f.trusts(f.rome, "milan")
		return c.Status == metav1.ConditionUnknown && strings.Contains(c.Message, f.milan.Address)
	})
	if found, err := f.rome.People.Catalog(ctx, api.CatalogQuery{}); len(found) > 0 {
		t.Errorf("milan, which does not know rome, shows it %v, %v", found, err)
	}
	must(f.milan.People.AddPeer(ctx, "rome", f.fingerprint(f.rome), ""))(t)
	f.until("rome has met milan", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	var offer api.Listing
	f.until("rome reads milan's catalog", func() bool {
		found, err := f.rome.People.Catalog(ctx, api.CatalogQuery{})
		if err == nil && len(found) == 1 {
			offer = found[0].Payload
		}
		return offer.Plans["small"].Remaining == 3
	})
	got := f.buys(f.rome, "first", api.Purchase{Units: 1, Digest: offer.Digest})
	if got.State != api.Reserved || got.Provider != "milan" {
		t.Fatalf("%+v", got)
	}
	f.until("both have the contract", func() bool {
		return f.contractsOf(f.milan)[got.Reservation].Spec.Assignment != "" &&
			f.contractsOf(f.rome)[got.Reservation].Spec.Assignment != ""
	})
	must(f.rome.People.ChangeLocally(ctx, got.Reservation, api.ReservationChange{Units: 2}))(t)
	f.until("milan sold two units", func() bool { return f.contractsOf(f.milan)[got.Reservation].Status.Terms.Units == 2 })
	if err := f.rome.People.ReleaseLocally(ctx, got.Reservation, api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("all three are on sale again", func() bool {
		found, err := f.rome.People.Catalog(ctx, api.CatalogQuery{})
		return err == nil && len(found) == 1 && found[0].Payload.Plans["small"].Remaining == 3
	})
	for _, m := range f.Members {
		for _, p := range must(m.People.Diagnose(ctx))(t).Problems {
			if strings.Contains(p.Code+p.Subject+p.Detail+p.Remedy, "roker") {
				t.Errorf("%s: %+v", m.Name, p)
			}
		}
	}
}

// A cluster that was started without a broker joins one later, and keeps its key.
func TestJoinsABrokerLater(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	before := f.fingerprint(f.milan)
	token := must(f.Operator.CreateToken(t.Context(), "milan", time.Hour))(t)
	must(f.milan.People.PutBroker(t.Context(), "north", api.BrokerSpec{Join: token.Token}))(t)
	f.until("the broker shows milan's offer", func() bool {
		found, err := f.Operator.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && len(found) == 1
	})
	for _, m := range must(f.Operator.Members(t.Context()))(t) {
		if m.Payload.Fingerprint != before {
			t.Errorf("%s is a member with the key %s", m.ID, m.Payload.Fingerprint)
		}
	}
}

// A first contact with members of a broker that is up: the two need not have met there.
func TestFirstPurchaseIsDirect(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	must(f.rome.People.AddPeer(t.Context(), "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	must(f.milan.People.AddPeer(t.Context(), "rome", f.fingerprint(f.rome), ""))(t)
	f.until("rome has met milan", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	digest := must(f.rome.People.Offer(t.Context(), "milan", "web"))(t).Payload.Digest
	for name, via := range map[string]api.Via{"direct": api.ViaDirect, "auto": api.ViaAuto} {
		request := api.Request{
			Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Digest: digest},
			Duration: &metav1.Duration{Duration: time.Hour},
		}
		must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: name, Request: request, Via: via}))(t)
		f.becomes(f.rome, name, func(now api.ResourceRequestStatus) bool { return now.State == api.Reserved })
	}
	if at := must(f.Operator.Reservations(t.Context()))(t); len(at) > 0 {
		t.Errorf("the broker has %d reservations", len(at))
	}
}

// What is not the named cluster at the named address gets nothing, and the Peer says why.
func TestFirstContactWithTheWrongOne(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	ctx := t.Context()
	must(f.milan.People.AddPeer(ctx, "rome", f.fingerprint(f.rome), ""))(t)
	refused := func(what, cluster, fingerprint, address, said string) {
		t.Helper()
		must(f.rome.People.AddPeer(ctx, cluster, fingerprint, address))(t)
		f.until(what, func() bool {
			c := f.trusts(f.rome, cluster)
			return c.Status == metav1.ConditionUnknown && strings.Contains(c.Message, said)
		})
	}
	refused("another key than the named one", "milan", f.fingerprint(f.rome), f.milan.Address, "another key")
	refused("another cluster than the named one", "oslo", f.fingerprint(f.milan), f.milan.Address, `cluster "milan"`)
	refused("an address of the machine itself", "bonn", f.fingerprint(f.milan), "169.254.169.254:443", "--allow-peer-range")
	refused("nobody at the address", "turin", f.fingerprint(f.milan), "127.0.0.1:1", "refused")
	for _, address := range []string{"milan", "https://milan:1", "user@milan:1", "milan:0", "milan:1/x", ":1", "[::1]"} {
		if _, err := f.rome.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), address); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("address %q: %v", address, err)
		}
	}
	if found, _ := f.rome.People.Catalog(ctx, api.CatalogQuery{}); len(found) > 0 {
		t.Errorf("rome reads %v", found)
	}
	must(f.rome.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	f.until("the right key is met", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	refused("a known cluster in the place of another", "paris", f.fingerprint(f.milan), f.milan.Address, "not paris")
}

// A buyer proposes, the seller counters or accepts, and the answer is an offer that this buyer alone sees and
// buys. No broker has a part in it.
func TestNegotiation(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.Broker.Stop()
	ctx := t.Context()
	must(f.rome.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	must(f.milan.People.AddPeer(ctx, "rome", f.fingerprint(f.rome), ""))(t)
	f.until("rome reads milan's catalog", func() bool {
		found, err := f.rome.People.Catalog(ctx, api.CatalogQuery{})
		return err == nil && len(found) == 1
	})
	terms := func(amount string, units int64) api.ProposalTerms {
		return api.ProposalTerms{Price: &api.Price{Amount: amount, Currency: "EUR", Period: api.PeriodHour},
			Units: units, Duration: &metav1.Duration{Duration: 10 * time.Hour}}
	}
	wish := api.ProposalCreate{Seller: "milan", Offer: "web", Plan: "small", ProposalTerms: terms("0.05", 2)}
	low := must(f.rome.People.Propose(ctx, wish))(t)
	wish.ProposalTerms = terms("0.09", 1)
	fair := must(f.rome.People.Propose(ctx, wish))(t)
	for name, wrong := range map[string]api.ProposalCreate{
		"an offer that is not there": {Seller: "milan", Offer: "other", Plan: "small"},
		"a plan that is not there":   {Seller: "milan", Offer: "web", Plan: "other"},
		"a seller that nobody knows": {Seller: "oslo", Offer: "web", Plan: "small"},
		"no price": {Seller: "milan", Offer: "web", Plan: "small",
			ProposalTerms: api.ProposalTerms{Price: &api.Price{Amount: "-1", Currency: "EUR", Period: api.PeriodHour}}},
		"no time": {Seller: "milan", Offer: "web", Plan: "small", Within: &metav1.Duration{Duration: 1000 * time.Hour}},
	} {
		if _, err := f.rome.People.Propose(ctx, wrong); err == nil {
			t.Errorf("%s: it is proposed", name)
		}
	}
	known := func(m *federation.Member) map[string]api.KnownProposal {
		out := map[string]api.KnownProposal{}
		for _, p := range must(m.People.Proposals(ctx))(t) {
			out[p.ID] = p.Payload
		}
		return out
	}
	f.until("milan shows what it received", func() bool { return len(known(f.milan)) == 2 })
	if at := known(f.milan); at[low.ID].Proposal.Units != 2 || at[low.ID].Answer != "" {
		t.Fatalf("milan received %+v", at)
	}
	answers := func() api.OfferSpec {
		f.replies(low.ID, api.ProposalAnswer{ProposalTerms: api.ProposalTerms{Price: terms("0.08", 2).Price}})
		f.replies(fair.ID, api.ProposalAnswer{})
		var made api.Offer
		if err := f.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: low.ID}, &made); err != nil {
			t.Fatal(err)
		}
		return made.Spec
	}
	first := answers()
	time.Sleep(time.Second) // ends are in whole seconds
	if again := answers(); !again.ValidUntil.Equal(first.ValidUntil) {
		t.Errorf("a repeated answer is on sale until %s, and not until %s", again.ValidUntil, first.ValidUntil)
	}
	if _, err := f.milan.People.AnswerProposal(ctx, "p-none", api.ProposalAnswer{}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("an unknown proposal: %v", err)
	}
	if _, err := f.rome.People.AnswerProposal(ctx, low.ID, api.ProposalAnswer{}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("its buyer: %v", err)
	}
	f.until("rome reads the answers", func() bool {
		at := known(f.rome)
		return at[low.ID].Countered && at[low.ID].Answer == low.ID && !at[fair.ID].Countered && at[fair.ID].Answer == fair.ID
	})
	if at := known(f.rome); len(at) != 3 { // the agent goes on to look for the seller that nobody knows
		t.Errorf("rome knows %+v", at)
	}
	for id, want := range map[string]string{low.ID: "1.60 EUR", fair.ID: "0.90 EUR"} {
		var digest string
		f.until("rome sees the answer", func() bool {
			l, err := f.rome.People.Offer(ctx, "milan", id)
			digest = l.Payload.Digest
			return err == nil && l.Payload.Plans["small"].Remaining > 0
		})
		request := api.Request{Duration: &metav1.Duration{Duration: 10 * time.Hour},
			Purchase: &api.Purchase{Seller: "milan", Offer: id, Plan: "small", Digest: digest}}
		must(f.rome.People.MakeRequest(ctx, api.RequestCreate{Name: id, Request: request}))(t)
		var got api.ResourceRequestStatus
		f.becomes(f.rome, id, func(now api.ResourceRequestStatus) bool { got = now; return now.State == api.Reserved })
		f.until("the contract costs "+want, func() bool {
			return f.contractsOf(f.milan)[got.Reservation].Status.Cost == want
		})
	}
}

// A seller keeps only what the caller has signed itself, for this seller and for now. To show a proposal again
// changes nothing.
func TestHostileProposals(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	ctx := t.Context()
	must(f.milan.People.AddPeer(ctx, "rome", f.fingerprint(f.rome), ""))(t)
	key := must(clusterkey.ParsePEM(must(store.InDir(filepath.Join(f.Dir, "rome")).Load(ctx))(t).ClusterKeyPEM))(t)
	milan := must(clusterkey.ParsePEM(must(store.InDir(filepath.Join(f.Dir, "milan")).Load(ctx))(t).ClusterKeyPEM))(t)
	must(f.rome.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	f.until("rome has met milan", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	config := must(key.ClientTLS("rome", "milan",
		func(string) identity.Fingerprint { return milan.Public().Fingerprint() }))(t)
	carrier := &http.Transport{TLSClientConfig: config}
	t.Cleanup(carrier.CloseIdleConnections)
	connector := client.New("https://"+f.milan.Address, &http.Client{Transport: carrier})
	now := time.Now().UTC().Truncate(time.Second)
	signs := func(key *clusterkey.Key, change func(*api.SignedProposal)) string {
		p := api.SignedProposal{Protocol: api.Protocol, Buyer: "rome", Seller: "milan", Offer: "web", Plan: "small",
			Issued: metav1.NewTime(now), Expires: metav1.NewTime(now.Add(time.Hour))}
		change(&p)
		return must(key.Sign(api.DocumentProposal, p))(t)
	}
	good := signs(key, func(*api.SignedProposal) {})
	for name, c := range map[string]struct {
		document string
		code     api.Code
	}{
		"no document":                 {"x", api.CodeBadSignature},
		"signed by the seller":        {signs(milan, func(*api.SignedProposal) {}), api.CodeBadSignature},
		"of another buyer":            {signs(key, func(p *api.SignedProposal) { p.Buyer = "oslo" }), api.CodeBadSignature},
		"for another seller":          {signs(key, func(p *api.SignedProposal) { p.Seller = "oslo" }), api.CodeNotFound},
		"of a later protocol":         {signs(key, func(p *api.SignedProposal) { p.Protocol = 99 }), api.CodeBadSignature},
		"of an offer with a path":     {signs(key, func(p *api.SignedProposal) { p.Offer = "../web" }), api.CodeInvalid},
		"that has expired":            {signs(key, func(p *api.SignedProposal) { p.Expires = p.Issued }), api.CodeInvalid},
		"that never expires":          {signs(key, func(p *api.SignedProposal) { p.Expires = metav1.NewTime(now.AddDate(1, 0, 0)) }), api.CodeInvalid},
		"with a hidden message":       {signs(key, func(p *api.SignedProposal) { p.Message = "\x1b[2J" }), api.CodeInvalid},
		"with a message that is long": {signs(key, func(p *api.SignedProposal) { p.Message = strings.Repeat("a", 257) }), api.CodeInvalid},
		"of fewer than no units":      {signs(key, func(p *api.SignedProposal) { p.Units = -1 }), api.CodeInvalid},
		"for no time":                 {signs(key, func(p *api.SignedProposal) { p.Duration = &metav1.Duration{Duration: -time.Hour} }), api.CodeInvalid},
	} {
		if _, err := connector.SendProposal(ctx, c.document); api.CodeOf(err) != c.code {
			t.Errorf("a proposal %s: %v", name, err)
		}
	}
	f.until("milan sells, and keeps a good one", func() bool { _, err := connector.SendProposal(ctx, good); return err == nil })
	id := must(connector.SendProposal(ctx, good))(t).ID
	f.replies(id, api.ProposalAnswer{})
	if again := must(connector.SendProposal(ctx, good))(t); again.ID != id || again.Payload.Answer != id {
		t.Errorf("shown again, it is %+v", again)
	}
	if all := must(f.milan.People.Proposals(ctx))(t); len(all) != 1 {
		t.Errorf("milan has %+v", all)
	}
}

// An answer is for its buyer alone, also if the broker shows the seller's offers to others. A seller keeps few
// proposals of each buyer.
func TestAnswersAreForTheirBuyerAlone(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	ctx := t.Context()
	for name, m := range map[string]*federation.Member{"rome": f.rome, "oslo": f.oslo} {
		must(m.People.AddPeer(ctx, "milan", f.fingerprint(f.milan), f.milan.Address))(t)
		must(f.milan.People.AddPeer(ctx, name, f.fingerprint(m), ""))(t)
		f.until(name+" has met milan", func() bool { return f.trusts(m, "milan").Reason == "Confirmed" })
	}
	wish := api.ProposalCreate{Seller: "milan", Offer: "web", Plan: "small", ProposalTerms: api.ProposalTerms{Units: 1}}
	p := must(f.rome.People.Propose(ctx, wish))(t)
	f.replies(p.ID, api.ProposalAnswer{})
	f.until("rome sees the answer", func() bool { _, err := f.rome.People.Offer(ctx, "milan", p.ID); return err == nil })
	if _, err := f.oslo.People.Offer(ctx, "milan", p.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("oslo sees what is for rome: %v", err)
	}
	if all := must(f.oslo.People.Proposals(ctx))(t); len(all) > 0 {
		t.Errorf("oslo sees the proposals %+v", all)
	}
	for i := range 7 {
		wish.Message = fmt.Sprint(i)
		must(f.rome.People.Propose(ctx, wish))(t)
	}
	wish.Message = "one more"
	if _, err := f.rome.People.Propose(ctx, wish); api.CodeOf(err) != api.CodeTooManyRequests {
		t.Errorf("a ninth proposal: %v", err)
	}
	must(f.oslo.People.Propose(ctx, wish))(t)
}

package proposals

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// desk negotiates for rome, which knows milan.
type desk struct {
	*Proposals
	t         *testing.T
	milan     *transporttest.Party
	sent      []string   // documents that reached milan's connector
	refusal   error      // its answer to them
	said      []proposal // what it says of them
	published []string
	clock     *transporttest.Clock
	asks      func() // what happens while milan is asked
}

// shop is the part of a desk that sells.
type shop struct{ *desk }

func (s shop) CheckAccept(string) error { return nil }
func (s shop) PublishAgain(name string) { s.published = append(s.published, name) }

// connectors are the part of a desk that calls sellers.
type connectors struct{ *desk }

func (c connectors) Propose(_ context.Context, seller, document string) (none proposal, err error) {
	c.sent = append(c.sent, seller+" "+document)
	return none, c.refusal
}

func (c connectors) Proposals(_ context.Context, asked func(string) bool) []proposal {
	if !asked("milan") {
		return nil
	}
	if c.asks != nil {
		c.asks()
	}
	return c.said
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	var types []kubeapi.Type
	for kind, resource := range map[string]string{"Offer": "offers", "Proposal": "proposals"} {
		types = append(types, kubeapi.Type{GroupVersion: api.GroupVersion,
			Kind: kind, Resource: resource, Namespaced: true, Status: true})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: types}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	rome := transporttest.NewParty(t, "rome")
	d := &desk{t: t, milan: transporttest.NewParty(t, "milan"), clock: transporttest.NewClock()}
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome", Clock: d.clock})
	d.Proposals = New(Options{Client: c, Cluster: "rome", Namespace: "bourse", Key: rome.Key, Ledger: ledger,
		Sellers: connectors{d}, Offers: shop{d}, Changed: &kubeobject.Trigger{}})
	if _, _, err := (trust.Demand{}).Meet(t.Context(), ledger, d.milan.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	offer, err := trust.Offer(rome.SignOffer("web", 1, transporttest.WebOffer("0.10")), rome.Key.Public())
	if err == nil {
		_, err = ledger.Do(t.Context(), market.Publish{Offer: offer})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// price is an hourly price of one unit.
func price(amount string) api.ProposalTerms {
	return api.ProposalTerms{Price: &api.Price{Amount: amount, Currency: "EUR", Period: api.PeriodHour}}
}

// signed returns a price that milan proposes to rome.
func (d *desk) signed(amount string) string {
	d.t.Helper()
	document, err := d.milan.Key.Sign(api.DocumentProposal, api.SignedProposal{Protocol: api.Protocol, Buyer: "milan",
		Seller: "rome", Offer: "web", Plan: "small", Expires: metav1.NewTime(time.Now().Add(time.Hour)),
		ProposalTerms: price(amount)})
	if err != nil {
		d.t.Fatal(err)
	}
	return document
}

// receives makes rome's Ledger keep what milan proposes, and returns its ID.
func (d *desk) receives(id, document string) string {
	d.t.Helper()
	if id == "" {
		id = trust.ProposalID(document)
	}
	if _, err := d.Ledger.Do(d.t.Context(), market.Propose{Buyer: "milan", Proposal: market.Proposal{
		ID: id, Document: document, Expires: market.At(time.Now().Add(time.Hour))}}); err != nil {
		d.t.Fatal(err)
	}
	return id
}

func (d *desk) get(namespace, name string, o client.Object) {
	d.t.Helper()
	if err := d.Client.Get(d.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		d.t.Fatal(err)
	}
}

// looks has the agent look at a Proposal some times, and returns it; nil if it is gone.
func (d *desk) looks(namespace, name string, times int) (o *api.Proposal) {
	d.t.Helper()
	at := client.ObjectKey{Namespace: namespace, Name: name}
	for range times {
		if _, err := d.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: at}); err != nil {
			d.t.Fatal(err)
		}
	}
	o = &api.Proposal{}
	if err := d.Client.Get(d.t.Context(), at, o); err != nil {
		return nil
	}
	return o
}

// is checks a condition.
func (d *desk) is(o *api.Proposal, kind string, status metav1.ConditionStatus, reason, part string) {
	d.t.Helper()
	c := meta.FindStatusCondition(o.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, part) {
		d.t.Errorf("%s is %+v, want %s %s: %s", kind, c, status, reason, part)
	}
}

// proposes makes a Proposal of team-a to milan.
func (d *desk) proposes(name string, change func(*api.ProposalSpec)) *api.Proposal {
	d.t.Helper()
	o := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name},
		Spec: api.ProposalSpec{Seller: "milan", Offer: "web", Plan: "small", ProposalTerms: price("0.08")}}
	if change != nil {
		change(&o.Spec)
	}
	if err := d.Client.Create(d.t.Context(), o); err != nil {
		d.t.Fatal(err)
	}
	return o
}

// A proposal is signed once, and sent until the seller has it. Then its answer is shown.
func TestSent(t *testing.T) {
	d := newDesk(t)
	d.proposes("cheaper", nil)
	o := d.looks("team-a", "cheaper", 1)
	d.is(o, api.ConditionSent, metav1.ConditionFalse, "Signed", "milan")
	if len(d.sent) > 0 || o.Status.ID == "" || o.Status.Expires.Sub(o.Status.Issued.Time) != 72*time.Hour {
		t.Errorf("it is sent before the object says what: %q, %+v", d.sent, o.Status)
	}
	d.refusal = api.Errorf(api.CodeUnavailable, "no connector of milan is known")
	d.is(d.looks("team-a", "cheaper", 1), api.ConditionSent, metav1.ConditionFalse, "Unavailable", "no connector")
	d.refusal = nil
	d.clock.Move(2*time.Second, func() time.Time { return d.Ledger.Now().Go() })
	o = d.looks("team-a", "cheaper", 3)
	d.is(o, api.ConditionSent, metav1.ConditionTrue, "Sent", "milan has it")
	d.is(o, api.ConditionAnswered, metav1.ConditionFalse, "Waits", "")
	if len(d.sent) != 2 || d.sent[0] != d.sent[1] || !strings.HasPrefix(d.sent[0], "milan ") {
		t.Fatalf("it sent %q", d.sent)
	}
	document := strings.TrimPrefix(d.sent[0], "milan ")
	if trust.ProposalID(document) != o.Status.ID {
		t.Errorf("it sent another than %s", o.Status.ID)
	}
	says := func(known api.KnownProposal) *api.Proposal {
		known.Proposal.Seller, known.Document = "milan", document
		d.said = []proposal{{Payload: known}}
		return d.looks("team-a", "cheaper", 1)
	}
	o = says(api.KnownProposal{Declined: true, Reason: "too low\x1b[2J"})
	if d.is(o, api.ConditionAnswered, metav1.ConditionTrue, "Declined", "too low"); o.Status.Reason != "too low [2J" {
		t.Errorf("the reason is %q", o.Status.Reason)
	}
	o = says(api.KnownProposal{Answer: o.Status.ID, Countered: true})
	d.is(o, api.ConditionAnswered, metav1.ConditionTrue, "Countered", "bourse buy milan/"+o.Status.ID+"/small")
	if o.Status.Offer != o.Status.ID || o.Status.Reason != "" {
		t.Errorf("it shows %+v", o.Status)
	}
	d.said = nil
	d.is(d.looks("team-a", "cheaper", 1), api.ConditionAnswered, metav1.ConditionTrue, "Countered", "")

	ended := metav1.NewTime(time.Now().Add(-6 * 24 * time.Hour))
	o.Status.Expires = &ended
	if err := d.Client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if o = d.looks("team-a", "cheaper", 1); o == nil {
		t.Fatal("it is deleted while its answer may be on sale")
	}
	ended = metav1.NewTime(time.Now().Add(-8 * 24 * time.Hour))
	o.Status.Expires = &ended
	if err := d.Client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if d.looks("team-a", "cheaper", 1) != nil || len(d.sent) != 2 {
		t.Errorf("it is kept, or sent again: %d times", len(d.sent))
	}
}

// What is wrong with a proposal of this cluster is said, and nothing is sent.
func TestNotSent(t *testing.T) {
	d := newDesk(t)
	long := &metav1.Duration{Duration: 169 * time.Hour}
	for name, c := range map[string]struct {
		change func(*api.ProposalSpec)
		says   string
	}{
		"seller":  {func(s *api.ProposalSpec) { s.Seller = "" }, "seller"},
		"price":   {func(s *api.ProposalSpec) { s.ProposalTerms = price("-1") }, "price.amount"},
		"message": {func(s *api.ProposalSpec) { s.Message = "\x1b[2J" }, "message"},
		"within":  {func(s *api.ProposalSpec) { s.Within = long }, "within"},
		"buyer":   {func(s *api.ProposalSpec) { s.Buyer = "oslo" }, "spec.buyer"},
	} {
		d.proposes(name, c.change)
		d.is(d.looks("team-a", name, 2), api.ConditionSent, metav1.ConditionFalse, "Invalid", c.says)
	}
	d.proposes("changed", nil)
	o := d.looks("team-a", "changed", 1)
	o.Spec.ProposalTerms = price("0.01")
	if err := d.Client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.is(d.looks("team-a", "changed", 1), api.ConditionSent, metav1.ConditionFalse, "Conflict", "has changed")
	for i := range maxStanding {
		d.proposes(fmt.Sprint("one-", i), nil)
		o = d.looks("team-a", fmt.Sprint("one-", i), 1)
	}
	d.is(o, api.ConditionSent, metav1.ConditionFalse, "TooManyRequests", "wait until one expires")
	if len(d.sent) > 0 {
		t.Errorf("it sent %q", d.sent)
	}
}

// A proposal that this cluster received is an object, and an admin answers it there. Each answer is carried out once.
func TestReceived(t *testing.T) {
	d := newDesk(t)
	id := d.receives("", d.signed("0.08"))
	o := d.looks("bourse", id, 2)
	d.is(o, api.ConditionAnswered, metav1.ConditionFalse, "Waits", "kubectl -n bourse patch proposal "+id)
	if o.Spec.Buyer != "milan" || o.Spec.Price.Amount != "0.08" || o.Status.Digest == "" || o.Status.Expires == nil {
		t.Errorf("it shows %+v", o)
	}
	answers := func(reply api.ProposalReply) *api.Proposal {
		t.Helper()
		o.Spec.Answer = &reply
		if err := d.Client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o = d.looks("bourse", id, 2)
		return o
	}
	d.is(answers(api.ProposalReply{Decision: "Maybe"}), api.ConditionAnswered, metav1.ConditionFalse, "Invalid", "Maybe")
	d.is(answers(api.ProposalReply{Decision: api.ProposalAccept}), api.ConditionAnswered, metav1.ConditionTrue,
		"Accepted", "rome/"+id+"/small")
	var offer api.Offer
	d.get("bourse", id, &offer)
	if got := offer.Spec.Plans[0].Price.Amount; got != "0.08" || offer.Spec.VisibleTo.Clusters[0] != "milan" {
		t.Errorf("it sells at %s to %v", got, offer.Spec.VisibleTo)
	}
	if err := d.Client.Delete(t.Context(), &offer); err != nil { // as if it was bought
		t.Fatal(err)
	}
	d.looks("bourse", id, 2)
	if err := d.Client.Get(t.Context(), client.ObjectKeyFromObject(&offer), &offer); err == nil {
		t.Error("it is accepted twice")
	}
	d.is(answers(api.ProposalReply{Decision: api.ProposalCounter, ProposalTerms: price("0.09")}), api.ConditionAnswered,
		metav1.ConditionTrue, "Countered", id)
	d.get("bourse", id, &offer)
	if got := offer.Spec.Plans[0].Price.Amount; got != "0.09" {
		t.Errorf("it sells at %s", got)
	}
	d.is(answers(api.ProposalReply{Decision: api.ProposalDecline, ProposalTerms: api.ProposalTerms{Message: "no"}}),
		api.ConditionAnswered, metav1.ConditionTrue, "Declined", "no")
	if p := d.kept(id); !p.Declined || p.Reason != "no" || p.Answer != "" {
		t.Errorf("the Ledger has %+v", p)
	}
	if _, err := d.answer(t.Context(), id, "", api.ProposalAnswer{}); err != nil { // by the command line
		t.Fatal(err)
	}
	d.is(d.looks("bourse", id, 1), api.ConditionAnswered, metav1.ConditionTrue, "Accepted", id)
}

// An answer to an object that does not say what the buyer signed changes nothing. An object goes with the proposal.
func TestReceivedOtherwise(t *testing.T) {
	d := newDesk(t)
	id := d.receives("", d.signed("0.01"))
	o := d.looks("bourse", id, 2)
	o.Spec.ProposalTerms, o.Spec.Answer = price("9.00"), &api.ProposalReply{Decision: api.ProposalAccept}
	if err := d.Client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.is(d.looks("bourse", id, 2), api.ConditionAnswered, metav1.ConditionFalse, "Conflict", "milan signed")
	if p := d.kept(id); p.Answer != "" {
		t.Errorf("the Ledger has %+v", p)
	}
	ghost := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "p-1"},
		Spec: api.ProposalSpec{Seller: "rome", Offer: "web", Plan: "small", Buyer: "milan"}}
	if err := d.Client.Create(t.Context(), ghost); err != nil {
		t.Fatal(err)
	}
	if d.looks("bourse", "p-1", 1) != nil {
		t.Error("it is kept without a proposal")
	}
	if _, err := d.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "bourse"}}); err != nil {
		t.Error(err)
	}
}

// A seller that is slow to answer is asked for one proposal at a time, so that it holds up one worker.
func TestOneReadPerSeller(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"one", "two"} {
		d.proposes(name, nil)
		d.looks("team-a", name, 2) // signed and sent
	}
	asked := 0
	d.asks = func() {
		if asked++; asked == 1 {
			d.looks("team-a", "two", 1)
		}
	}
	d.looks("team-a", "one", 1)
	if asked != 1 {
		t.Errorf("milan is asked %d times together", asked)
	}
	if d.looks("team-a", "two", 1); asked != 2 {
		t.Errorf("afterwards it is asked %d times", asked)
	}
}

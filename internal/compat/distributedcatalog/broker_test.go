package distributedcatalog_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog/catalogtest"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// bazaar is a federation whose broker answers the prototype's clients: milan sells the offer web,
// rome and oslo are members, lima waits for approval, nobody has no certificate.
type bazaar struct {
	*servertest.Federation
	rome, milan, oslo, lima *servertest.Member
	nobody                  *http.Client
}

func newBazaar(t *testing.T) *bazaar {
	t.Helper()
	f := servertest.Start(t, servertest.Options{Before: func(ctx context.Context,
		f *servertest.Federation, members http.Handler) http.Handler {
		return distributedcatalog.Broker(ctx, members, distributedcatalog.BrokerOptions{
			URL: f.URL, Server: f.Server, Log: servertest.Silent(),
		})
	}})
	b := &bazaar{Federation: f, rome: f.Join("rome"), milan: f.Join("milan"),
		oslo: f.Join("oslo"), lima: f.Enter("lima", f.Token("")), nobody: f.StrangerHTTP()}
	b.milan.Advertise("100")
	b.oslo.Advertise("10")
	b.publish(t, 1, "0.10")
	return b
}

func (b *bazaar) publish(t *testing.T, version int64, price string) {
	t.Helper()
	if err := b.milan.PublishOffer(t.Context(), "milan", "web",
		b.milan.SignOffer("web", version, transporttest.WebOffer(price))); err != nil {
		t.Fatal(err)
	}
}

// credentials are what the prototype's connector sends, with a Liqo token that must not be found
// anywhere afterwards.
func credentials(cluster string) string {
	return fmt.Sprintf(`{"clusterID":%q, "clusterName":%q, "token":"%s", "endpoint":"http://157.154.63.92:61789","clusterContractEndpoint":"http://157.154.63.92:6002"}`, cluster, cluster, liqoToken)
}

const liqoToken = "251abe85708525fd9647669df63cc52de1a68bd63bb6ac0be421b31583851d71"

func (b *bazaar) authenticate(t *testing.T, m *servertest.Member) string {
	t.Helper()
	data, status := catalogtest.Call(t, m.HTTP, "POST", b.URL+"/authenticate", credentials(m.ID))
	var out struct{ Token string }
	if err := json.Unmarshal(data, &out); err != nil || status != http.StatusOK || out.Token == "" {
		t.Fatalf("%d %s", status, data)
	}
	return out.Token
}

// What the prototype's README, its reference and its connector send the broker, and what it answers.
func TestDocumentedCallsOfTheBroker(t *testing.T) {
	b := newBazaar(t)
	s := &catalogtest.Transcript{T: t, URL: b.URL}
	s.Ask("rome", b.rome.HTTP, "POST", "/authenticate", credentials("rome"))
	s.Say("A customer authenticates with no arguments.")
	s.Ask("rome", b.rome.HTTP, "POST", "/authenticate", "")
	bearer := []string{"Authorization", "Bearer " + b.authenticate(t, b.rome)}
	s.Say("From here on rome shows its token, and no certificate.")
	s.Ask("rome", b.nobody, "GET", "/catalog", "", bearer...)
	s.Ask("rome", b.nobody, "GET", "/offer/milan_web", "", bearer...)
	s.Ask("rome", b.nobody, "GET", "/offer/offer1", "", bearer...)
	s.Say("The README's offer. Nobody has signed it.")
	s.Ask("oslo", b.oslo.HTTP, "POST", "/offer/offer1", readmeOffer)
	s.Ask("oslo", b.oslo.HTTP, "POST", "/offers", "["+readmeOffer+"]")
	s.Say("The same with the document that oslo's agent signed.")
	signed := b.oslo.SignOffer("offer1", 1, api.OfferSpec{Type: "offerType1",
		Description: "description1", Labels: map[string]string{
			"distributed-catalog/id": "offer1", "distributed-catalog/pretty-name": "Cluster 1", "distributed-catalog/plan.plan1": "plan1", "distributed-catalog/created": "1598960000"},
		Plans: []api.Plan{{Name: "plan1", Quantity: 1,
			Resources: api.Resources{"cpu": quantity("1"), "memory": quantity("1Gi"), "ephemeral-storage": quantity("1Gi")}}}})
	data, status := catalogtest.Call(t, b.oslo.HTTP, "POST", b.URL+"/offers", "["+strings.Replace(readmeOffer, "{", `{"document":"`+signed+`",`, 1)+"]")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, data)
	}
	s.Say("What is on sale already is so as often as it is said.")
	s.Ask("oslo", b.oslo.HTTP, "POST", "/offer/offer1", readmeOffer)
	s.Ask("oslo", b.oslo.HTTP, "POST", "/offers", "["+readmeOffer+"]")
	s.Ask("oslo", b.oslo.HTTP, "POST", "/offers", "[]")
	s.Ask("rome", b.nobody, "GET", "/offer/offer1", "", bearer...)
	s.Say("What has status false is off sale.")
	s.Ask("oslo", b.oslo.HTTP, "POST", "/offers",
		"["+strings.Replace(readmeOffer, `"status": true`, `"status": false`, 1)+"]")
	s.Ask("rome", b.nobody, "GET", "/offer/offer1", "", bearer...)
	s.Ask("oslo", b.oslo.HTTP, "DELETE", "/offer/offer1", "")
	s.Ask("milan", b.milan.HTTP, "DELETE", "/offer/milan_web", "")
	b.publish(t, 2, "0.10")
	s.Ask("milan", b.milan.HTTP, "DELETE", "/cluster", "")
	s.Ask("rome", b.nobody, "GET", "/catalog", "", bearer...)
	s.Ask("rome", b.rome.HTTP, "DELETE", "/cluster", "")
	s.Say("Its tokens have ended with that; it is still a member.")
	s.Ask("rome", b.nobody, "GET", "/catalog", "", bearer...)
	s.Ask("rome", b.rome.HTTP, "GET", "/catalog", "")
	s.Compare("broker.txt")
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

const readmeOffer = `{
  "offerID": "offer1", "offerName": "offer1", "offerType": "offerType1", "description": "description1", "clusterPrettyName": "Cluster 1",
  "created": 1598960000, "status": true,
  "plans": [{"planID": "plan1", "planName": "plan1", "planCost": 0, "planCostCurrency": "EUR", "planCostPeriod": "month", "planQuantity": 1,
    "resources": {"cpu": "1", "ram": "1Gi", "storage": "1Gi"}}]
}`

// Invalid callers and invalid bodies change nothing.
func TestHostileCallsOfTheBroker(t *testing.T) {
	b := newBazaar(t)
	before := b.Revision()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for _, c := range []struct {
		name         string
		by           *http.Client
		method, path string
		body         string
		want         int
		says         string
		header       []string
	}{
		{"nobody authenticates", b.nobody, "POST", "/authenticate", credentials("rome"), 401, "certificate", nil},
		{"nobody looks", b.nobody, "GET", "/catalog", "", 401, "", nil},
		{"nobody subscribes", b.nobody, "GET", "/subscribe", "", 401, "", nil},
		{"a token of no one", b.nobody, "GET", "/catalog", "", 401,
			"", []string{"Authorization", "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAA"}},
		{"the token of no one, empty", b.nobody, "GET", "/catalog", "", 401, "", []string{"Authorization", "Bearer "}},
		{"a cookie where no cookie counts", b.nobody, "DELETE", "/cluster",
			"", 401, "", []string{"Cookie", "jwt-token=" + b.authenticate(t, b.rome)}},
		{"a token for a token", b.nobody, "POST", "/authenticate",
			credentials("rome"), 401, "not for another token", []string{"Authorization", "Bearer " + b.authenticate(t, b.rome)}},
		{"who waits for approval", b.lima.HTTP, "POST", "/authenticate", credentials("lima"), 403, "approv", nil},
		{"an operator", b.OperatorHTTP, "POST", "/authenticate", credentials("rome"), 401, "", nil},
		{"as another", b.oslo.HTTP, "POST", "/authenticate", credentials("milan"), 403, "may not speak for", nil},
		{"as anybody, by an operator of Mongo", b.oslo.HTTP, "POST", "/authenticate", `{"clusterID":{"$ne":""},"clusterName":"x","token":"x","endpoint":"x","clusterContractEndpoint":"x"}`, 400, "clusterID", nil},
		{"without what is asked for", b.oslo.HTTP, "POST", "/authenticate", `{"clusterID":"oslo"}`, 400, "Malformed input", nil},
		{"as a form", b.oslo.HTTP, "POST", "/authenticate", credentials("oslo"),
			400, "application/json", []string{"Content-Type", "text/plain"}},
		{"no JSON", b.oslo.HTTP, "POST", "/offer/x", "{", 400, "", nil},
		{"no array", b.oslo.HTTP, "POST", "/offers", `{}`, 400, "", nil},
		{"null", b.oslo.HTTP, "POST", "/offers", `null`, 400, "", nil},
		{"an array of what is no offer", b.oslo.HTTP, "POST", "/offers", `[1,null]`, 400, "", nil},
		{"null among offers", b.oslo.HTTP, "POST", "/offers", `[null]`, 400, "offerID", nil},
		{"nested", b.oslo.HTTP, "POST", "/offers", deep, 400, "", nil},
		{"huge", b.oslo.HTTP, "POST", "/offers", `["` + strings.Repeat("a", 200<<10) + `"]`, 413, "", nil},
		{"more offers than anybody has", b.oslo.HTTP, "POST", "/offers",
			"[" + strings.Repeat("{},", 300) + "{}]", 400, "256", nil},
		{"another's offer, by its ID", b.oslo.HTTP, "POST", "/offer/milan_web",
			strings.Replace(readmeOffer, `"offer1"`, `"milan_web"`, 1), 403, "milan", nil},
		{"another's offer, by its cluster", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, "{", `{"clusterID":"milan",`, 1), 403, "may not sell for", nil},
		{"another ID than in the path", b.oslo.HTTP, "POST", "/offer/other", readmeOffer, 400, "offerID", nil},
		{"an operator as ID", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, `"offer1"`, `{"$ne":""}`, 1), 400, "offerID", nil},
		{"a document that milan signed", b.oslo.HTTP, "POST", "/offer/web", strings.Replace(strings.Replace(readmeOffer, `"offer1"`, `"web"`, 1), "{", `{"document":"`+b.milan.SignOffer("web", 9, transporttest.WebOffer("0.01"))+`",`, 1), 400, "", nil},
		{"a document that says something else", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, "{", `{"document":"`+b.oslo.SignOffer("offer1", 9, transporttest.WebOffer("0.01"))+`",`, 1), 400, "something else", nil},
		{"a document that is none", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, "{", `{"document":"a.b.c",`, 1), 400, "document", nil},
		{"a document of another offer", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, "{", `{"document":"`+b.oslo.SignOffer("web", 9, transporttest.WebOffer("0.01"))+`",`, 1), 400, "", nil},
		{"8GB", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, `"ram": "1Gi"`, `"ram": "8GB"`, 1),
			400, "resources.ram", nil},
		{"an exponent that takes for ever", b.oslo.HTTP, "POST", "/offer/offer1",
			strings.Replace(readmeOffer, `"ram": "1Gi"`, `"ram": "1e-999999999"`, 1), 400, "resources.ram", nil},
		{"a document that nobody signed, with an amount that takes for ever", b.oslo.HTTP, "POST", "/offer/offer1",
			strings.Replace(readmeOffer, "{", `{"document":"e30.`+base64.RawURLEncoding.EncodeToString(
				[]byte(`{"offer":{"plans":[{"resources":{"cpu":"1e-999999999"}}]}}`))+`.x",`, 1), 400, "signed document", nil},
		{"a price that takes for ever", b.oslo.HTTP, "POST", "/offer/offer1",
			strings.Replace(readmeOffer, `"planCost": 0`, `"planCost": 1e999999999`, 1), 400, "planCost", nil},
		{"a negative price", b.oslo.HTTP, "POST", "/offer/offer1",
			strings.Replace(readmeOffer, `"planCost": 0`, `"planCost": -1`, 1), 400, "planCost", nil},
		{"ram and memory", b.oslo.HTTP, "POST", "/offer/offer1",
			strings.Replace(readmeOffer, `"ram"`, `"memory": "2Gi", "ram"`, 1), 400, "twice", nil},
		{"half a GPU", b.oslo.HTTP, "POST", "/offer/offer1", strings.Replace(readmeOffer, `"ram"`, `"gpu": "500m", "ram"`, 1),
			400, "GPU", nil},
		{"nothing of it for sale", b.oslo.HTTP, "POST", "/offer/offer1",
			strings.Replace(readmeOffer, `"planQuantity": 1`, `"planQuantity": 0`, 1), 400, "planQuantity", nil},
		{"delete another's", b.oslo.HTTP, "DELETE", "/offer/milan_web", "", 403, "milan", nil},
		{"an ID that is a path", b.oslo.HTTP, "GET", "/offer/..%2f..%2fmembers", "", 404, "", nil},
		{"an ID that is long", b.oslo.HTTP, "GET", "/offer/" + strings.Repeat("a", 5000), "", 404, "", nil},
		{"Bourse's own routes stay guarded", b.nobody, "GET", api.Prefix + "/members", "", 401, "", nil},
		{"Bourse's own routes stay guarded, with a token of ours", b.nobody,
			"GET", api.Prefix + "/catalog", "", 401, "", []string{"Authorization", "Bearer " + b.authenticate(t, b.rome)}},
		{"no such route", b.oslo.HTTP, "GET", "/clusters", "", 404, "", nil},
	} {
		data, status := catalogtest.Call(t, c.by, c.method, b.URL+c.path, c.body, c.header...)
		if status != c.want || !strings.Contains(string(data), c.says) {
			t.Errorf("%s: %d %s, want %d and %q", c.name, status, data, c.want, c.says)
		}
	}
	if now := b.Exchange.View().Revision; now != before {
		t.Errorf("the market was at revision %d and is at %d", before, now)
	}
	// A call with a token on a connection leaves no trace of it: the next without is nobody's.
	catalogtest.Call(t, b.nobody, "GET", b.URL+"/catalog", "", "Authorization", "Bearer "+b.authenticate(t, b.rome))
	if data, status := catalogtest.Call(t, b.nobody, "GET", b.URL+api.Prefix+"/catalog", ""); status != 401 {
		t.Errorf("%d %s", status, data)
	}
}

// A token is as good as the membership of who has it, and no cluster has many.
func TestTokens(t *testing.T) {
	b := newBazaar(t)
	with := func(token string) int {
		_, status := catalogtest.Call(t, b.nobody, "GET", b.URL+"/catalog", "", "Authorization", "Bearer "+token)
		return status
	}
	first := b.authenticate(t, b.rome)
	for range 8 {
		b.authenticate(t, b.rome)
	}
	last := b.authenticate(t, b.rome)
	if with(first) != 401 || with(last) != 200 {
		t.Errorf("the first of ten: %d, the last: %d", with(first), with(last))
	}
	for _, step := range []string{"suspend", "revoke"} {
		if _, err := b.Operator.SetMember(t.Context(), "rome", step); err != nil {
			t.Fatal(err)
		}
		if got := with(last); got != 403 {
			t.Errorf("after %s: %d", step, got)
		}
	}
}

// Nothing of a Liqo token is kept: not in the market, nor in any answer.
func TestLiqoTokensAreDropped(t *testing.T) {
	b := newBazaar(t)
	before := b.Revision()
	b.authenticate(t, b.milan)
	if now := b.Exchange.View().Revision; now != before {
		t.Errorf("authenticating is in the journal: revision %d, before %d", now, before)
	}
	for _, path := range []string{"/catalog", "/offer/milan_web"} {
		if data, _ := catalogtest.Call(t, b.rome.HTTP, "GET", b.URL+path, ""); strings.Contains(string(data), liqoToken) {
			t.Errorf("%s tells it: %s", path, data)
		}
	}
}

func (b *bazaar) subscribe(t *testing.T, m *servertest.Member, header http.Header) (*websocket.Conn, error) {
	t.Helper()
	by := b.nobody
	if m != nil {
		by = m.HTTP
	}
	c, _, err := websocket.Dial(t.Context(), "wss"+strings.TrimPrefix(b.URL, "https")+"/subscribe",
		&websocket.DialOptions{HTTPClient: by, HTTPHeader: header})
	if err == nil {
		c.SetReadLimit(1 << 20)
		t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, err
}

func read[T any](t *testing.T, c *websocket.Conn) (out T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, data, err := c.Read(ctx)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return out
}

// A subscriber reads the whole catalog, then each provider whose offers change, and of one that
// sells nothing any more its ID.
func TestSubscribe(t *testing.T) {
	b := newBazaar(t)
	c, err := b.subscribe(t, nil, http.Header{"Cookie": {"jwt-token=" + b.authenticate(t, b.rome)}})
	if err != nil {
		t.Fatal(err)
	}
	if all := read[[]distributedcatalog.Catalog](t, c); len(all) != 1 ||
		all[0].ClusterID != "milan" || all[0].Token != "" || len(all[0].Offers) != 1 {
		t.Fatalf("%+v", all)
	}
	b.publish(t, 2, "0.20")
	if one := read[distributedcatalog.Catalog](t, c); one.ClusterID != "milan" ||
		one.Offers[0].Plans[0].PlanCost != "0.4" {
		t.Errorf("%+v", one)
	}
	if err := b.milan.WithdrawOffer(t.Context(), "milan", "web"); err != nil {
		t.Fatal(err)
	}
	if gone := read[distributedcatalog.Catalog](t, c); gone.ClusterID != "milan" ||
		gone.Offers == nil || len(gone.Offers) != 0 {
		t.Errorf("%+v", gone)
	}
	if _, err := b.Operator.SetMember(t.Context(), "rome", "suspend"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := c.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a suspended member: %v", err)
	}
}

// Who subscribes may neither flood nor hoard, and no page of another site may in its place.
func TestHostileSubscribers(t *testing.T) {
	b := newBazaar(t)
	if _, err := b.subscribe(t, b.rome, http.Header{"Origin": {"https://evil.example"}}); err == nil ||
		!strings.Contains(err.Error(), "403") {
		t.Errorf("a page of another site may subscribe: %v", err)
	}
	for name, send := range map[string]func(*websocket.Conn){
		"a giant frame": func(c *websocket.Conn) { _ = c.Write(t.Context(), websocket.MessageText, make([]byte, 1<<20)) },
		"a flood": func(c *websocket.Conn) {
			for range 10_000 {
				if c.Write(t.Context(), websocket.MessageText, []byte("{}")) != nil {
					return
				}
			}
		},
	} {
		c, err := b.subscribe(t, b.rome, nil)
		if err != nil {
			t.Fatal(err)
		}
		read[[]distributedcatalog.Catalog](t, c)
		go send(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, data, err := c.Read(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v, %s", name, err, data)
		}
		cancel()
	}
	var open int
	for range 40 {
		if _, err := b.subscribe(t, b.oslo, nil); err == nil {
			open++
		}
	}
	if open != 16 {
		t.Errorf("one member has %d subscriptions", open)
	}
}

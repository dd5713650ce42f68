package federation_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog/catalogtest"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// old is a client of the prototype's connector: its pages, at a member's socket.
type old struct {
	*http.Client
	t testing.TB
}

func clientOf(t testing.TB, m *federation.Member) old {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", m.Socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return old{&http.Client{Transport: transport}, t}
}

// get reads one of the prototype's documents.
func (o old) get(path string, into any) {
	o.t.Helper()
	data, status := catalogtest.Call(o.t, o.Client, "GET", "http://agent"+path, "")
	if err := json.Unmarshal(data, into); err != nil || status != http.StatusOK {
		o.t.Fatalf("GET %s: %d %s", path, status, data)
	}
}

// post makes a call that is answered with JSON in a text.
func (o old) post(method, path, body string) (answer map[string]any, status int) {
	o.t.Helper()
	data, status := catalogtest.Call(o.t, o.Client, method, "http://agent"+path, body)
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = []byte(text)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		o.t.Fatalf("%s %s: %d %s", method, path, status, data)
	}
	return answer, status
}

func catalogs(f *fair) { f.rome.DistributedCatalog, f.milan.DistributedCatalog = true, true }

const pagesOffer = `{"offerID":"milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a","offerName":"Big machines","offerType":"computational","description":"Fast","created":1687943210123,"status":true,
 "clusterID":"milan","clusterName":"milan","clusterPrettyName":"Milano Cloud","clusterContractEndpoint":"https://store.milan.example","endpoint":"x",
 "plans":[{"planID":"milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a_1","planName":"Small one","planCost":0.30000000000000004,"planCostCurrency":"EUR","planCostPeriod":"day","planQuantity":2,
  "resources":{"cpu":"1000m","ram":"2Gi"}}]}`

// What the prototype's pages and its reference send a connector, and what is answered: an old
// client buys from a seller that only ever was Bourse's, and from one that sold by the old
// interface.
func TestDocumentedCallsOfTheConnector(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	rome, milan := clientOf(t, f.rome), clientOf(t, f.milan)
	s := &catalogtest.Transcript{T: t, URL: "http://agent"}

	s.Ask("milan", milan.Client, "GET", "/api/cluster/init", "")
	s.Ask("milan", milan.Client, "GET", "/api/cluster/prettyname", "")
	s.Ask("milan", milan.Client, "GET", "/api/cluster/contractendpoint", "")
	s.Ask("milan", milan.Client, "POST",
		"/api/cluster/init?prettyname=Milano+Cloud&endpoint=https://store.milan.example", "")
	s.Ask("milan", milan.Client, "GET", "/api/cluster/parameters", "")
	s.Ask("milan", milan.Client, "GET", "/api/cluster/prettyname", "")
	s.Ask("milan", milan.Client, "GET", "/api/cluster/contractendpoint", "")
	s.Ask("milan", milan.Client, "POST", "/api/cluster/prettyname?id=Milano+%26+Cloud", "")
	s.Ask("milan", milan.Client, "POST", "/api/cluster/prettyname?prettyname=Milano+Cloud", "")
	s.Ask("milan", milan.Client, "POST", "/api/cluster/contractendpoint?id=https://shop.milan.example", "")
	s.Ask("milan", milan.Client, "GET", "/api/brokers", "")
	s.Ask("milan", milan.Client, "POST", "/api/brokers?path=https://broker.example.com&name=Another", `{"brokerName":"Another"}`)
	s.Ask("milan", milan.Client, "POST", "/api/offers", pagesOffer)
	s.Ask("milan", milan.Client, "GET", "/api/offers", "")

	catalog := func() (c []distributedcatalog.Catalog) {
		rome.get("/api/catalog", &c)
		return c
	}
	f.until("rome sees both offers", func() bool { c := catalog(); return len(c) == 1 && len(c[0].Offers) == 2 })
	s.Ask("rome", rome.Client, "GET", "/api/catalog", "")
	s.Say("What the pages send when Join Offer is pressed. Nobody is called at the address in it.")
	seller := `{"clusterID":"milan","clusterName":"milan","endpoint":"http://157.154.63.92:61789","token":"251abe","clusterPrettyName":"Milano Cloud","clusterContractEndpoint":"http://157.154.63.92:6002"}`
	s.Ask("rome", rome.Client, "POST",
		"/api/contracts/buy?offer-id=milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a&plan-id=milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a_1", seller)
	s.Ask("rome", rome.Client, "POST",
		"/api/contracts/buy?offer-id=milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a&plan-id=milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a_1", seller)
	s.Say("The same, of what was put on sale as Bourse does it.")
	s.Ask("rome", rome.Client, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small&for=24h", seller)
	s.Ask("rome", rome.Client, "GET", "/api/peer", "")
	s.Ask("rome", rome.Client, "POST",
		"/api/peer?id=milan&name=milan&authtoken=251abe&authurl=http://157.154.63.92:61789", "")
	f.until("milan has both contracts", func() bool {
		var c []distributedcatalog.ContractDocument
		milan.get("/api/contracts", &c)
		return len(c) == 2
	})
	var bought []distributedcatalog.ContractDocument
	rome.get("/api/contracts", &bought)
	if at := bought[0].Seller.ClusterContractEndpoint; at != catalog()[0].ClusterContractEndpoint || at == f.URL {
		t.Errorf("the seller of a contract is at %s", at)
	}
	s.Say("The buyer has signed it, and so had the seller: asking to sell it again shows it.")
	s.Ask("milan", milan.Client, "POST",
		"/api/contracts/sell?buyer-id=rome&offer-id=milan_web&plan-id=milan_web_small", "")
	s.Ask("milan", milan.Client, "POST",
		"/api/contracts/sell?buyer-id=oslo&offer-id=milan_web&plan-id=milan_web_small", "")
	s.Ask("rome", rome.Client, "DELETE", "/api/peer?id=milan", "")
	over := func() bool {
		var of, at []distributedcatalog.ContractDocument
		rome.get("/api/contracts?ended", &of)
		milan.get("/api/contracts?ended", &at)
		return len(of) == 2 && len(at) == 2 && of[0].State == "Released" &&
			of[1].State == "Released" && at[0].State == "Released" && at[1].State == "Released" && !of[0].Enabled
	}
	f.until("all is over on both", over)
	s.Say("The pages show each contract as if it were in force, so they get none that is over.")
	s.Ask("rome", rome.Client, "GET", "/api/contracts", "")
	s.Ask("rome", rome.Client, "GET", "/api/peer", "")
	s.Ask("rome", rome.Client, "POST",
		"/api/peer?id=milan&name=milan&authtoken=251abe&authurl=http://157.154.63.92:61789", "")
	s.Ask("milan", milan.Client, "DELETE", "/api/offers?id=milan_6d6a3b9e-9f9e-4a0e-8d1a-5a0f0a2e1a0a", "")
	s.Ask("milan", milan.Client, "DELETE", "/api/offers/milan_web", "")
	s.Ask("milan", milan.Client, "DELETE", "/api/offers?id=milan_web", "")
	f.until("nothing is in the catalog", func() bool { return len(catalog()) == 0 })
	s.Ask("rome", rome.Client, "GET", "/api/catalog", "")
	s.Compare("connector.txt")
}

// What is bought by two calls at once is bought once.
func TestOldClientsBuyOnce(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	rome := clientOf(t, f.rome)
	const calls = 4 // an agent refuses more that last for some seconds: each reads the catalog
	statuses := make(chan int, calls)
	ids := make(chan string, calls)
	for range calls {
		go func() {
			answer, status := rome.post("POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"milan"}`)
			statuses <- status
			ids <- fmt.Sprint(answer["contractId"])
		}()
	}
	bought, contracts := 0, map[string]bool{}
	for range calls {
		switch status := <-statuses; status {
		case http.StatusOK:
			bought++
		case http.StatusConflict:
		default:
			t.Errorf("%d", status)
		}
		contracts[<-ids] = true
	}
	if got := must(f.rome.People.Requests(t.Context()))(t); bought != 1 || len(contracts) != 1 || len(got) != 1 {
		t.Errorf("%d calls bought, contracts %v, %d requests", bought, contracts, len(got))
	}
}

// certified is a client of the broker with the certificate that a member's agent got when it joined.
func (f *fair) certified(m *federation.Member) *http.Client {
	f.t.Helper()
	var identity map[string]string
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(f.Dir, m.Name, "identity.json")))(f.t),
		&identity); err != nil {
		f.t.Fatal(err)
	}
	certificate := must(tls.X509KeyPair([]byte(identity["tls.crt"]), []byte(identity["tls.key"])))(f.t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(identity["ca.crt"]))
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate},
		RootCAs: roots}}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// What an old client takes off sale at the broker, the agent shows as off sale there. Its admin
// publishes it again.
func TestOldClientsTakeOffersOffSale(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	milan := f.certified(f.milan)
	ready := func() (reason string) {
		for _, o := range must(f.milan.People.Offers(t.Context()))(t) {
			if c := meta.FindStatusCondition(o.Payload.Status.Conditions, api.ConditionReady); c != nil {
				reason = c.Reason
			}
		}
		return reason
	}
	onSale := func() bool {
		_, err := f.rome.People.Offer(t.Context(), "milan", "web")
		return err == nil
	}
	for _, path := range []string{"/offer/milan_web", "/cluster"} {
		f.until("the agent says that it is on sale", func() bool { return ready() == "OnSale" })
		f.until("the agent says that it is off sale there", func() bool { // it may just be publishing it
			if data, status := catalogtest.Call(t, milan, "DELETE", f.URL+path, ""); status != http.StatusOK {
				t.Fatalf("%d %s", status, data)
			}
			return ready() == api.ReasonOffSaleAtBroker
		})
		if onSale() {
			t.Errorf("after DELETE %s it is on sale", path)
		}
		said := &strings.Builder{}
		if code := cli.Main([]string{"offer", "publish", "web", "--kubeconfig", f.kubeconfigOf(f.milan)}, said, said); code != 0 {
			t.Fatalf("bourse offer publish: %d %s", code, said)
		}
		f.until("it is on sale again", onSale)
	}
}

// A client of the prototype's broker shows the certificate that the cluster's agent got when it
// joined, and finds what is on sale now; what it posts as its agent has it on sale is taken.
func TestOldClientsOfTheBroker(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	rome, milan := f.certified(f.rome), f.certified(f.milan)
	if data, status := catalogtest.Call(t, rome, "POST", f.URL+"/authenticate", `{"clusterID":"rome","clusterName":"rome","token":"x","endpoint":"x","clusterContractEndpoint":"x"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, data)
	}
	var shown []distributedcatalog.Catalog
	data, status := catalogtest.Call(t, rome, "GET", f.URL+"/catalog", "")
	if err := json.Unmarshal(data, &shown); err != nil || status != http.StatusOK ||
		len(shown) != 1 || shown[0].Offers[0].OfferID != "milan_web" {
		t.Fatalf("%d %s", status, data)
	}
	if data, status := catalogtest.Call(t, milan, "POST", f.URL+"/offers", pagesOffer); status != http.StatusBadRequest {
		t.Errorf("what is no array: %d %s", status, data)
	}
	if data, status := catalogtest.Call(t, milan, "POST", f.URL+"/offers",
		"["+pagesOffer+"]"); status != http.StatusConflict || !strings.Contains(string(data), "not signed") {
		t.Errorf("what nobody signed: %d %s", status, data)
	}
	if answer, status := clientOf(t, f.milan).post("POST", "/api/offers", pagesOffer); status != http.StatusOK {
		t.Fatalf("at milan's agent: %d %v", status, answer)
	}
	f.until("the broker takes what milan's agent signed", func() bool {
		_, status := catalogtest.Call(t, milan, "POST", f.URL+"/offers", "["+pagesOffer+"]")
		return status == http.StatusOK
	})
}

// A plan that a person approves waits until the seller's side of the old interface says so; a
// contract is revoked by either side.
func TestSellAndRevokeByTheOldInterface(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs, func(f *fair) {
		o := webOffer("0.10")
		o.ApproveWithin, o.Plans[0].Notice = &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: time.Minute}
		f.milan.Offers = map[string]api.OfferSpec{"web": o}
	})
	rome, milan := clientOf(t, f.rome), clientOf(t, f.milan)
	const sell = "/api/contracts/sell?buyer-id=rome&offer-id=milan_web&plan-id=milan_web_small"
	if answer, status := milan.post("POST", sell, ""); status != http.StatusConflict ||
		!strings.Contains(fmt.Sprint(answer["error"]), "signed no purchase") {
		t.Errorf("sold what nobody has asked for: %d %v", status, answer)
	}
	waits, status := rome.post("POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"milan"}`)
	if status != http.StatusOK || waits["state"] != "Held" || !strings.Contains(fmt.Sprint(waits["message"]), "approval") {
		t.Fatalf("%d %v", status, waits)
	}
	if offer, _ := waits["offer"].(map[string]any); offer["plans"] == nil {
		t.Errorf("the offer of what waits has no list of plans: %v", waits)
	}
	again, status := rome.post("POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"milan"}`)
	if status != http.StatusOK || again["contractId"] != waits["contractId"] {
		t.Errorf("asked again while it waits: %d %v", status, again)
	}
	var sold map[string]any
	f.until("milan sells", func() bool { sold, status = milan.post("POST", sell, ""); return status == http.StatusOK })
	if sold["contractID"] != waits["contractId"] || sold["buyerID"] != "rome" || sold["enabled"] != true {
		t.Errorf("sold %v", sold)
	}
	f.until("both have it", func() bool {
		var bought, sells []distributedcatalog.ContractDocument
		rome.get("/api/contracts", &bought)
		milan.get("/api/contracts", &sells)
		return len(bought) == 1 && bought[0].Enabled && bought[0].ContractID == sold["contractID"] &&
			len(sells) == 1 && sells[0].Enabled
	})
	if answer, status := milan.post("DELETE", "/api/contracts?id="+fmt.Sprint(sold["contractID"]),
		""); status != http.StatusOK || !strings.Contains(fmt.Sprint(answer["message"]), "ends at") {
		t.Errorf("revoked by its seller: %d %v", status, answer)
	}
	if answer, status := rome.post("DELETE", "/api/contracts?id="+fmt.Sprint(sold["contractID"]),
		""); status != http.StatusOK {
		t.Errorf("revoked by its buyer: %d %v", status, answer)
	}
	f.until("it is over", func() bool {
		var c []distributedcatalog.ContractDocument
		milan.get("/api/contracts?ended", &c)
		return len(c) == 1 && !c[0].Enabled && c[0].State == "Released"
	})
}

// Bad input changes nothing, says what is wrong and how to mend it; and nobody is called because a
// caller says so.
func TestHostileCallsOfTheConnector(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	rome, milan := clientOf(t, f.rome), clientOf(t, f.milan)
	var called atomic.Int64
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer victim.Close()
	inside := url.QueryEscape(victim.URL)
	change := func(old, new string) string {
		if !strings.Contains(pagesOffer, old) {
			t.Fatal(old)
		}
		return strings.ReplaceAll(pagesOffer, old, new)
	}
	for _, c := range []struct {
		name         string
		by           old
		method, path string
		body         string
		want         int
		says         string
	}{
		{"a seller whose address is inside", rome, "POST", "/api/contracts/buy?offer-id=x&plan-id=y", `{"clusterID":"milan","clusterContractEndpoint":"` + victim.URL + `"}`, 404, "offer-id"},
		{"a seller that is nobody, whose address is inside", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"nobody","clusterContractEndpoint":"` + victim.URL + `","endpoint":"` + victim.URL + `"}`, 404, "offer-id"},
		{"a broker inside", rome, "POST", "/api/brokers?name=x&path=" + inside, "", 403, "token of its operator"},
		{"peering with what is inside", rome, "POST", "/api/peer?id=milan&name=x&authtoken=y&authurl=" + inside,
			"", 409, "nothing is bought"},
		{"an operator of Mongo as seller", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":{"$ne":""}}`, 400, "clusterID"},
		{"itself as seller", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"rome"}`, 400, "clusterID"},
		{"no seller", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{}`, 400, "clusterID"},
		{"a path as seller", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"../members"}`, 400, "clusterID"},
		{"no body", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", ``, 400, "body"},
		{"no offer", rome, "POST", "/api/contracts/buy?plan-id=milan_web_small", `{"clusterID":"milan"}`, 400, "offer-id"},
		{"no plan", rome, "POST", "/api/contracts/buy?offer-id=milan_web", `{"clusterID":"milan"}`, 400, "plan-id"},
		{"another plan", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=none", `{"clusterID":"milan"}`, 404, "plan-id"},
		{"for ever", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small&for=100000h", `{"clusterID":"milan"}`, 400, "duration"},
		{"for no time", rome, "POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small&for=-1h", `{"clusterID":"milan"}`, 400, "for"},
		{"an open sell", milan, "POST", "/api/contracts/sell?buyer-id=rome&offer-id=milan_web&plan-id=milan_web_small",
			"", 409, "signed no purchase"},
		{"a sell to nobody", milan, "POST", "/api/contracts/sell?buyer-id=%24ne&offer-id=milan_web&plan-id=milan_web_small",
			"", 400, "buyer-id"},
		{"8GB", milan, "POST", "/api/offers", change(`"2Gi"`, `"8GB"`), 400, "resources.ram"},
		{"a number for a quantity", milan, "POST", "/api/offers", change(`"2Gi"`, `[1]`), 400, "quantity"},
		{"an offer of rome's", milan, "POST", "/api/offers", change(`milan_6d`, `rome_6d`), 403, "rome"},
		{"an offer for rome", milan, "POST", "/api/offers", change(`"clusterID":"milan"`, `"clusterID":"rome"`), 403, "clusterID"},
		{"no currency", milan, "POST", "/api/offers", change(`"EUR"`, `"XYZW"`), 400, "currency"},
		{"no period", milan, "POST", "/api/offers", change(`"day"`, `"fortnight"`), 400, "period"},
		{"a text that cannot be shown", milan, "POST", "/api/offers", change(`"Fast"`, `"\u0007"`), 400, "description"},
		{"a long text", milan, "POST", "/api/offers", change(`Big machines`, strings.Repeat("x", 5000)), 400, "offerName"},
		{"a huge body", milan, "POST", "/api/offers", strings.Repeat(" ", 200<<10), 413, "bytes"},
		{"no offer's ID", milan, "DELETE", "/api/offers", "", 400, "id"},
		{"an offer that is not", milan, "DELETE", "/api/offers?id=none", "", 404, "none"},
		{"no pretty name", milan, "POST", "/api/cluster/prettyname", "", 400, "id"},
		{"a pretty name that cannot be shown", milan, "POST", "/api/cluster/prettyname?id=%1b%5b31m", "", 400, "id"},
		{"no URL", milan, "POST", "/api/cluster/contractendpoint?id=javascript:alert(1)", "", 400, "URL"},
		{"half an init", milan, "POST", "/api/cluster/init?prettyname=x", "", 400, "endpoint"},
		{"no peer", milan, "DELETE", "/api/peer?id=oslo", "", 404, "evict"},
		{"no contract", milan, "DELETE", "/api/contracts?id=r-none", "", 404, "contract"},
		{"a broker that is not", milan, "DELETE", "/api/brokers?id=none", "", 404, "broker"},
		{"a resource of the pages that never was", milan, "GET", "/api/resources", "", 404, ""},
	} {
		answer, status := c.by.post(c.method, c.path, c.body)
		if status != c.want || !strings.Contains(fmt.Sprint(answer), c.says) {
			t.Errorf("%s: %d %v, want %d and %q", c.name, status, answer, c.want, c.says)
		}
	}
	if called.Load() > 0 {
		t.Errorf("%d calls to where a caller said", called.Load())
	}
	var offers []distributedcatalog.Offer
	if milan.get("/api/offers", &offers); len(offers) != 1 {
		t.Errorf("%d offers", len(offers))
	}
	data, status := catalogtest.Call(t, clientOf(t, f.oslo).Client, "GET", "http://agent/api/catalog", "")
	if status != http.StatusNotFound {
		t.Errorf("where the flag is off: %d %s", status, data)
	}
}

// What the prototype has no word for stays as its admin said it when an offer is edited by its
// pages; and what has changed since it was shown is not bought.
func TestOldEditsKeepWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs, func(f *fair) {
		o := webOffer("0.10")
		o.VisibleTo.Clusters, o.Plans[0].Dedicated = []string{"rome"}, true
		f.milan.Offers = map[string]api.OfferSpec{"web": o}
	})
	rome, milan := clientOf(t, f.rome), clientOf(t, f.milan)
	var offers []json.RawMessage
	milan.get("/api/offers", &offers)
	if answer, status := milan.post("POST", "/api/offers", string(offers[0])); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	own := must(f.milan.People.Offers(t.Context()))(t)
	if got, want := own[0].Payload.Spec.Plans[0], webOffer("0.10").Plans[0]; !got.Dedicated ||
		got.Price.Amount != "0.10" || *got.Units != *want.Units ||
		*got.MaxDuration != *want.MaxDuration || len(own[0].Payload.Spec.VisibleTo.Clusters) != 1 {
		t.Errorf("saved as it was, it is %+v", own[0].Payload.Spec)
	}
	var shown []distributedcatalog.Catalog
	f.until("rome is shown it", func() bool { rome.get("/api/catalog", &shown); return len(shown) == 1 })
	if answer, status := milan.post("POST", "/api/offers",
		strings.Replace(string(offers[0]), `"planCost":0.10`, `"planCost":9.5`, 1)); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	f.until("milan asks more", func() bool {
		l, err := f.rome.People.Offer(t.Context(), "milan", "web")
		return err == nil && l.Payload.Offer.Plans[0].Price.Amount == "9.5"
	})
	if answer, status := rome.post("POST", "/api/contracts/buy?offer-id=milan_web&plan-id=milan_web_small", `{"clusterID":"milan"}`); status != http.StatusConflict || !strings.Contains(fmt.Sprint(answer["error"]), "changed since it was shown") {
		t.Errorf("bought at a price that nobody saw: %d %v", status, answer)
	}
}

// The old pages' subscription: an envelope for each provider whose offers change, and when the
// broker is away and back.
func TestSubscribeToTheConnector(t *testing.T) {
	t.Parallel()
	f := newFair(t, catalogs)
	rome := clientOf(t, f.rome)
	c, _, err := websocket.Dial(t.Context(), "ws://agent/api/subscribe", &websocket.DialOptions{HTTPClient: rome.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	type envelope struct {
		Type int
		Body struct {
			Event int
			Data  string
		}
	}
	next := func(event int) (e envelope) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		for e.Body.Event != event {
			_, data, err := c.Read(ctx)
			if err = errors.Join(err, json.NewDecoder(bytes.NewReader(data)).Decode(&e)); err != nil {
				t.Fatal(err)
			}
		}
		return e
	}
	if _, err := f.milan.People.PutOffer(t.Context(), "web", webOffer("0.20")); err != nil {
		t.Fatal(err)
	}
	var provider distributedcatalog.Catalog
	if e := next(2); e.Type != 1 || json.Unmarshal([]byte(e.Body.Data), &provider) != nil ||
		provider.ClusterID != "milan" || provider.Offers[0].Plans[0].PlanCost != "0.20" {
		t.Errorf("%+v", e)
	}
	f.Broker.Stop()
	if e := next(3); !strings.Contains(e.Body.Data, "unreachable") {
		t.Errorf("%+v", e)
	}
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	if e := next(1); e.Type != 20 {
		t.Errorf("%+v", e)
	}
}

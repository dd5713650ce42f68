package ui

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// removes removes a request of team after the test, whatever became of it.
func removes(t *testing.T, name string) {
	t.Cleanup(func() {
		_ = shared.Members["rome"].Objects.Delete(context.Background(), &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name}})
	})
}

// becomes waits until a request of team is as holds says.
func becomes(t *testing.T, name string, holds func(api.ResourceRequestStatus) bool) {
	t.Helper()
	var o api.ResourceRequest
	for end := time.Now().Add(30 * time.Second); !holds(o.Status); time.Sleep(100 * time.Millisecond) {
		must(t, shared.Members["rome"].Objects.Get(context.Background(), key("team", name), &o))
		if time.Now().After(end) {
			t.Fatalf("team/%s stays %+v", name, o.Status)
		}
	}
}

// The whole way with a keyboard alone: find, review, create, extend, release. Tab leads to whatever acts.
func TestTheWholeWayByKeyboard(t *testing.T) {
	b := tab(t, shared.pages(t, "rome", "ann"), 1280)
	removes(t, "typed")
	types := func(id, text string) {
		t.Helper()
		must(t, b.Reach(`e.id === "`+id+`"`))
		must(t, b.Do(chromedp.KeyEvent(text))) // a field that Tab enters is selected, so that this replaces its value
	}
	must(t, b.Wait(`socket.readyState === 1`))
	must(t, b.Do(chromedp.KeyEvent("g"), chromedp.KeyEvent("f")))
	must(t, b.See("Find capacity"))
	must(t, b.Wait(`document.querySelector("#cpu") !== null`))
	types("cpu", "1")
	types("memory", "1Gi")
	must(t, b.Wait(`document.querySelector("main .title a.button") !== null`)) // the live answer leads on
	must(t, b.Press("Review and create"))
	must(t, b.See("would get"))
	types("name", "typed")
	must(t, b.Press("Create the request"))
	must(t, b.See("ResourceRequest team/typed made"))
	becomes(t, "typed", func(s api.ResourceRequestStatus) bool { return s.Began != nil })
	must(t, b.Wait(`[...document.querySelectorAll("a")].some((e) => e.innerText.trim() === "Extend")`))
	must(t, b.Press("Extend"))
	must(t, b.Wait(`document.querySelector("#for") !== null`))
	types("for", "30h")
	must(t, b.Press("Ask for the new end"))
	must(t, b.See("The new end is asked for"))
	becomes(t, "typed", func(s api.ResourceRequestStatus) bool { return s.Generation == 2 })
	must(t, b.Press("Release"))
	must(t, b.Wait(`document.querySelector("section.panel button.danger") !== null`))
	must(t, b.Reach(`e.matches("section.panel button.danger")`))
	must(t, b.Do(chromedp.KeyEvent("\r")))
	must(t, b.See("team/typed is being released"))
}

// asks has rome buy what milan looks at first, and returns the reservation that waits.
func asks(t *testing.T, name string) string {
	t.Helper()
	removes(t, name)
	_, err := shared.Members["rome"].People.CreateRequest(t.Context(), api.RequestCreate{Namespace: "team", Name: name,
		Request: api.Request{Duration: &metav1.Duration{Duration: time.Hour}, Purchase: &api.Purchase{Seller: "milan",
			Offer: "reviewed", Plan: "rack", Units: 1, MaxPrice: &api.Price{Amount: "1", Currency: "EUR", Period: api.PeriodHour}}}})
	must(t, err)
	id := ""
	becomes(t, name, func(s api.ResourceRequestStatus) bool { id = s.Reservation; return id != "" })
	return id
}

// An approval in two tabs of a phone: the first act counts, and the form in the other tab ends and says why.
func TestTwoTabs(t *testing.T) {
	id := asks(t, "twice")
	first := tab(t, shared.pages(t, "milan", ""), 390)
	must(t, first.Go("/lending"))
	must(t, first.Wait(`document.getElementById("approval-`+id+`") !== null`))
	second, end, err := first.Another(390)
	must(t, err)
	t.Cleanup(end)
	for _, b := range []*browser.Tab{first, second} {
		at, err := browser.Eval[string](first, `location.origin + location.pathname.match(/^\/s\/[0-9a-f]+/)[0]`)
		must(t, err)
		must(t, b.Open(at+"/lending?panel=approve&id="+id))
		must(t, b.See("Approve rome"))
	}
	must(t, first.Press("Approve"))
	must(t, first.See(id+" is approved"))
	becomes(t, "twice", func(s api.ResourceRequestStatus) bool { return s.Began != nil })
	must(t, second.Wait(`document.querySelector("section.panel form") === null`))
	must(t, second.See("This request does not wait any more"))
}

// A cluster that joins with a token for any cluster waits for the operator, who sees it come, and approves it.
func TestAClusterJoins(t *testing.T) {
	b := tab(t, shared.operator(t), 1280)
	must(t, b.Go("/?panel=token"))
	must(t, b.Do(chromedp.Click("section.panel form button")))
	must(t, b.See("Hand this token"))
	text, err := browser.Eval[string](b, `document.querySelector("#done code").innerText`)
	must(t, err)
	must(t, b.Go("/"))
	must(t, b.Wait(`socket.readyState === 1`))

	token, err := join.ParseToken(strings.TrimSpace(text))
	must(t, err)
	key, err := clusterkey.New(rand.Reader)
	must(t, err)
	tlsKey, err := tlsid.NewKey()
	must(t, err)
	csr, err := tlsid.NewCSR(tlsKey)
	must(t, err)
	submission, err := join.Submit(token, key, join.Request{Protocol: api.Protocol, Cluster: "bergen", CSR: csr, Time: time.Now().UTC()})
	must(t, err)
	address, err := url.Parse(token.BrokerURL)
	must(t, err)
	joined, err := client.New(token.BrokerURL, &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: tlsid.JoinConfig(address.Hostname(), token.Pin, time.Now)}}).Join(t.Context(), submission)
	must(t, err)
	if joined.State != api.MemberPending {
		t.Fatalf("bergen is %s", joined.State)
	}

	row := `document.querySelector("#member-bergen")`
	must(t, b.Wait(row+`?.innerText.includes("Waits")`))
	must(t, b.Do(chromedp.Click(`#member-bergen a[href*="panel=approve"]`)))
	must(t, b.See("Approve bergen"))
	must(t, b.Do(chromedp.Click("section.panel form button")))
	must(t, b.See("bergen is approved"))
	must(t, b.Wait(row+` !== null && !`+row+`.innerText.includes("Waits")`))
	must(t, b.Go("/?panel=revoke&id=bergen")) // other tests count who takes part
	must(t, b.Do(chromedp.SendKeys("#typed", "bergen\r")))
	must(t, b.See("bergen is revoked"))
}

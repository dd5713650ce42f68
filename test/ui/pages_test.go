package ui

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// everyPage are the paths that are looked at, with their panels.
var everyPage = []string{"/", "/borrowing", "/find", "/find?cpu=2&memory=4Gi", "/find?cpu=2&panel=review", "/find?cpu=x",
	"/find?panel=propose&id=milan%2Fweb%2Fsmall", "/find?panel=propose&id=nobody", "/find?panel=review&buy=milan%2Fweb%2Fsmall&units=2&for=3h",
	"/pools/burst", "/pools/burst?panel=stop", "/pools/burst?panel=admit&id=paris",
	"/requests/team/page", "/requests/team/page?panel=release",
	"/requests/team/page?panel=extend", "/requests/team/page?panel=resize", "/requests/team/absent", "/nowhere",
	"/clusters", "/clusters?sort=-cpu", "/clusters/milan", "/clusters/milan?panel=trust", "/clusters/milan?panel=suspend",
	"/clusters/milan?panel=evict", "/lending", "/lending?panel=policy", "/offers", "/offers?panel=new", "/contracts",
	"/contracts?state=all", "/brokers", "/brokers?panel=add", "/brokers?panel=disable&id=main",
	"/search", "/search?q=mi", "/search?q=nobody"}

// providerPages are those where a cluster that lends and sells has more to show.
var providerPages = []string{"/lending", "/offers", "/offers?panel=edit&id=web", "/offers?panel=sale&id=web", "/contracts",
	"/clusters/rome",
	"/clusters/rome?panel=evict", "/brokers"}

// operatorPages are those of a broker's operator.
var operatorPages = []string{"/", "/?q=nobody", "/?panel=token", "/?panel=suspend&id=paris", "/?panel=revoke&id=paris", "/?panel=cap&id=paris",
	"/?panel=delete-token&id=x", "/nowhere"}

// Every page is free of violations and errors, and axe finds nothing, in both themes, wide and on a phone. No page is
// wider than the phone.
func TestPages(t *testing.T) {
	shared.request(t, "page", small())
	lookAt(t, tab(t, shared.pages(t, "rome", ""), 1280), everyPage)
}

func TestProviderPages(t *testing.T) {
	shared.request(t, "lent", small())
	lookAt(t, tab(t, shared.pages(t, "milan", ""), 1280), providerPages)
}

func TestOperatorPages(t *testing.T) {
	lookAt(t, tab(t, shared.operator(t), 1280), operatorPages)
}

func lookAt(t *testing.T, b *browser.Tab, paths []string) {
	t.Helper()
	for _, dark := range []bool{false, true} {
		must(t, b.Dark(dark))
		for _, width := range []int{1280, 390} {
			must(t, b.Resize(width))
			for _, path := range paths {
				name := fmt.Sprintf("%s, %d wide, dark %v", path, width, dark)
				must(t, b.Go(path))
				if over, err := browser.Eval[float64](b, `document.documentElement.scrollWidth - innerWidth`); err != nil || over > 0 {
					t.Errorf("%s: %v px are outside, %v", name, over, err)
				}
				for _, fault := range b.Faults() {
					t.Errorf("%s: %s", name, fault)
				}
				acts, err := browser.Eval[int](b, `document.querySelectorAll("main :is(li, tr) form[method=post]").length`)
				if err != nil || acts > 0 {
					t.Errorf("%s: %d rows act at a click, %v", name, acts, err)
				}
				if width == 390 {
					bare, err := browser.Eval[string](b, `[...document.querySelectorAll(".scroll td.number:not([data-label])")].
						filter((e) => /[0-9]/.test(e.innerText)).map((e) => e.innerText).join(", ")`)
					if err != nil || bare != "" {
						t.Errorf("%s: numbers without the name of their column: %s, %v", name, bare, err)
					}
				}
				if width == 390 && dark {
					continue // what axe looks at differs by theme or by width, not by both
				}
				found, err := check(b)
				must(t, err)
				for _, violation := range found {
					t.Errorf("%s: %s", name, violation)
				}
			}
		}
	}
}

// An operator suspends what was seen, types a name before a member goes for good, and sees a token once.
func TestOperator(t *testing.T) {
	b := tab(t, shared.operator(t), 1280)
	must(t, b.Go("/?panel=revoke&id=paris"))
	must(t, b.Do(chromedp.SendKeys("#typed", "milan\r")))
	must(t, b.See("type paris"))
	must(t, b.Go("/?panel=suspend&id=paris"))
	must(t, b.Do(chromedp.Click("section.panel button")))
	must(t, b.See("paris is suspended"))
	must(t, b.Wait(`document.querySelector("#member-paris").innerText.includes("Suspended")`))
	must(t, b.Go("/?panel=resume&id=paris"))
	must(t, b.Do(chromedp.Click("section.panel button")))
	must(t, b.See("paris takes part again"))
	must(t, b.Go("/?panel=cap&id=paris"))
	must(t, b.Do(chromedp.SendKeys("#reservations", "x\r")))
	must(t, b.See("is not a whole number"))
	must(t, b.Do(chromedp.Clear("#reservations"), chromedp.SendKeys("#reservations", "7\r")))
	must(t, b.See("paris may have at most: 7 reservations"))
	must(t, b.Wait(`document.querySelector("#member-paris").innerText.includes("7 reservations")`))
	must(t, b.Go("/?panel=token"))
	must(t, b.Do(chromedp.SendKeys("#cluster", "oslo\r")))
	must(t, b.See("Hand this token"))
	must(t, b.Go("/"))
	if text, err := browser.Eval[string](b, `document.body.innerText`); err != nil || strings.Contains(text, "Hand this token") ||
		!strings.Contains(text, "oslo") {
		t.Errorf("the page shows %s, %v", text, err)
	}
}

// A change of an object by kubectl reaches the screen by itself.
func TestAChangeReachesTheScreen(t *testing.T) {
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/borrowing"))
	must(t, b.Wait(`socket.readyState === 1`))
	shared.request(t, "appears", small())
	began := time.Now()
	must(t, b.Wait(`document.getElementById("row-team/appears")`+` !== null`))
	t.Logf("on the screen after %v", time.Since(began).Round(time.Millisecond))
	must(t, b.Wait(`document.getElementById("row-team/appears")?.innerText.includes("Reserved")`))
}

// What a user does stays while the page changes ten times a second: typed text, focus, selection, open details, the place
// to which the user scrolled.
func TestUndisturbed(t *testing.T) {
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/borrowing"))
	must(t, b.Wait(`socket.readyState === 1`))
	must(t, b.Do(chromedp.Click("#problems summary"), chromedp.Focus("main [name=q]"), chromedp.SendKeys("main [name=q]", "nois")))
	for i := range 20 {
		shared.request(t, fmt.Sprintf("noise-%d", i), small())
		time.Sleep(100 * time.Millisecond)
	}
	must(t, b.Do(chromedp.KeyEvent("e")))
	must(t, b.Wait(`document.getElementById("row-team/noise-19") !== null`))
	must(t, b.Wait(`new URLSearchParams(location.search).get("q") === "noise"`))
	for expression, want := range map[string]string{
		`document.querySelector("main [name=q]").value`:                  "noise",
		`String(document.querySelector("main [name=q]").selectionStart)`: "5",
		`document.activeElement.name`:                                    "q",
		`String(document.querySelector("#problems").open)`:               "true",
	} {
		if got, err := browser.Eval[string](b, expression); err != nil || got != want {
			t.Errorf("%s is %q, want %q, %v", expression, got, want, err)
		}
	}
	must(t, b.Wait(`[...document.querySelectorAll("tbody tr")].every((r) => r.id.includes("noise"))`))

	marked := `document.getElementById("row-team/noise-15").querySelector("a")`
	must(t, b.Do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); scrollTo(0, 300); getSelection().selectAllChildren(`+marked+`)`)))
	scrolled, err := browser.Eval[float64](b, `scrollY`)
	must(t, err)
	for i := range 10 {
		shared.request(t, fmt.Sprintf("noise-more-%d", i), small())
		time.Sleep(100 * time.Millisecond)
	}
	must(t, b.Wait(`document.getElementById("row-team/noise-more-9") !== null`))
	if at, err := browser.Eval[float64](b, `scrollY`); err != nil || scrolled < 200 || at != scrolled {
		t.Errorf("the page is at %v px, and was at %v, %v", at, scrolled, err)
	}
	if text, err := browser.Eval[string](b, `String(getSelection())`); err != nil || !strings.Contains(text, "noise-15") {
		t.Errorf("%q is selected, %v", text, err)
	}
}

// A row stays where it is while one reads, also when what orders the list has changed. A filter and a click on the order
// of the list move it.
func TestRowsStayWhereTheyAre(t *testing.T) {
	rome := shared.Members["rome"].People
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/clusters?sort=-state"))
	rows := `[...document.querySelectorAll("tbody tr")].map((r) => r.id).join(" ")`
	must(t, b.Wait(`socket.readyState === 1 && `+rows+` === "cluster-milan cluster-paris"`))
	t.Cleanup(func() { _, _ = rome.Resume(context.Background(), "paris") })
	_, err := rome.Suspend(t.Context(), "paris", "a test")
	must(t, err)
	must(t, b.Wait(`document.querySelector("#cluster-paris").innerText.includes("Suspended")`))
	if got, err := browser.Eval[string](b, rows); err != nil || got != "cluster-milan cluster-paris" {
		t.Errorf("the rows are %q, %v", got, err)
	}
	must(t, b.Do(chromedp.SendKeys("main [name=q]", "i")))
	must(t, b.Wait(rows+` === "cluster-paris cluster-milan"`))
	_, err = rome.Resume(t.Context(), "paris")
	must(t, err)
	must(t, b.Wait(`!document.querySelector("#cluster-paris").innerText.includes("Suspended") && `+rows+` === "cluster-paris cluster-milan"`))
	for _, order := range []string{"state", "-state"} {
		must(t, b.Do(chromedp.Click(`th a[href*="sort=`+order+`"]`)))
		must(t, b.Wait(`new URLSearchParams(location.search).get("sort") === "`+order+`" && `+rows+` === "cluster-milan cluster-paris"`))
	}
}

// The whole way without a script: find, review, create, extend, release.
func TestWithoutScript(t *testing.T) {
	b := tab(t, shared.pages(t, "rome", "ann"), 1280)
	must(t, b.Script(false))
	must(t, b.Go("/find"))
	b.Faults() // the page before it lost its script amid an update
	must(t, b.Do(chromedp.SendKeys("#cpu", "1"), chromedp.SendKeys("#memory", "1Gi\r")))
	must(t, b.See("Review and create"))
	must(t, b.Do(chromedp.Click(`main .title a.button`)))
	must(t, b.See("would get"))
	must(t, b.Do(chromedp.Clear("#name"), chromedp.SendKeys("#name", "plain\r")))
	must(t, b.See("ResourceRequest team/plain made"))
	var o api.ResourceRequest
	for end := time.Now().Add(20 * time.Second); o.Status.Began == nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		must(t, shared.Members["rome"].Objects.Get(context.Background(), key("team", "plain"), &o))
	}
	must(t, b.Go("/requests/team/plain?panel=extend"))
	must(t, b.Do(chromedp.Clear("#for"), chromedp.SendKeys("#for", "30h\r")))
	must(t, b.See("The new end is asked for"))
	must(t, b.Go("/requests/team/plain?panel=extend"))
	must(t, b.Do(chromedp.Clear("#for"), chromedp.SendKeys("#for", "soon\r")))
	must(t, b.See("is not a duration"))
	for end := time.Now().Add(20 * time.Second); o.Status.Generation < 2 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		must(t, shared.Members["rome"].Objects.Get(context.Background(), key("team", "plain"), &o)) // the provider agrees
	}
	must(t, b.Go("/requests/team/plain?panel=release"))
	must(t, b.Do(chromedp.Click(`section.panel button.danger`)))
	must(t, b.See("team/plain is being released"))
}

// A theme that is chosen wins over the browser's, on each page and in the next run. From each page one searches all.
func TestThemeAndSearch(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Dark(false))
	must(t, b.Go("/clusters"))
	must(t, b.Do(chromedp.Click(`.theme button[value=dark]`)))
	dark := `getComputedStyle(document.body).backgroundColor === "rgb(20, 22, 26)" && location.pathname.endsWith("/clusters")`
	must(t, b.Wait(dark))
	must(t, b.Do(chromedp.SendKeys("header [name=q]", "mila\r")))
	must(t, b.Wait(`document.querySelector("main a[href$='/clusters/milan']") !== null`))
	b = tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Dark(false))
	must(t, b.Go("/clusters"))
	must(t, b.Wait(dark))
	must(t, b.Do(chromedp.Click(`.theme button[value=""]`)))
	must(t, b.Wait(`getComputedStyle(document.body).backgroundColor === "rgb(246, 247, 249)"`))
}

// A user of one namespace sees it, and nothing of others.
func TestAUserOfOneNamespace(t *testing.T) {
	secret := &api.ResourceRequest{Spec: small()}
	secret.Namespace, secret.Name = "default", "others-secret"
	must(t, shared.Members["rome"].Objects.Create(context.Background(), secret))
	t.Cleanup(func() { _ = shared.Members["rome"].Objects.Delete(context.Background(), secret) })
	shared.request(t, "visible", small())
	pool := regexp.MustCompile(`burst([^.]|$)`) // its name, no name of a file
	b := tab(t, shared.pages(t, "rome", "ann"), 1280)
	for _, path := range []string{"/", "/borrowing", "/find?cpu=1", "/clusters/milan", "/requests/default/others-secret", "/pools/burst"} {
		must(t, b.Go(path))
		text, err := browser.Eval[string](b, `document.querySelector("main").innerText`)
		must(t, err)
		if strings.Contains(text, `"-"`) {
			t.Errorf("%s names an object that nobody asked for: %s", path, text)
		}
		if strings.Contains(text, "others-secret") && !strings.Contains(path, "others-secret") || pool.MatchString(text) &&
			!strings.Contains(path, "burst") {
			t.Errorf("%s shows what others have: %s", path, text)
		}
		if path == "/borrowing" && !strings.Contains(text, "visible") {
			t.Errorf("%s lacks her own request: %s", path, text)
		}
	}
	b.Faults() // what she may not see answers 403 and 404
}

// Keys lead through the pages, and close a panel.
func TestKeyboard(t *testing.T) {
	shared.request(t, "keys", small())
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Wait(`socket.readyState === 1`))
	must(t, b.Do(chromedp.KeyEvent("g"), chromedp.KeyEvent("b")))
	must(t, b.Wait(`document.querySelector("h1")?.innerText === "Borrowing"`))
	must(t, b.Do(chromedp.KeyEvent("/")))
	must(t, b.Wait(`document.activeElement.type === "search"`))
	must(t, b.Go("/requests/team/keys?panel=release"))
	must(t, b.Do(chromedp.KeyEvent("\u001b")))
	must(t, b.Wait(`location.search === "" && document.querySelector("section.panel") === null`))
}

// While broker or agent are away, a page says so and since when, and goes on by itself when they are back.
func TestAway(t *testing.T) {
	shared.request(t, "stays", small())
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/borrowing"))
	must(t, b.See("stays"))
	shared.Broker.Stop()
	must(t, b.See("The broker is away"))
	must(t, shared.Broker.Start())
	must(t, b.Wait(`!document.body.innerText.includes("The broker is away")`))
	shared.StopMember("rome")
	must(t, b.See("The agent does not answer"))
	must(t, b.See("stays"))
	shared.StartMember("rome")
	must(t, b.Wait(`!document.body.innerText.includes("The agent does not answer")`))
}

// A form that is refused stays on the screen with the error and what was typed.
func TestARefusedForm(t *testing.T) {
	shared.request(t, "refused", small())
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/requests/team/refused?panel=extend"))
	must(t, b.See("Extend"))
	must(t, b.Do(chromedp.Clear("#for"), chromedp.SendKeys("#for", "soon\r")))
	must(t, b.See("is not a duration"))
	shared.request(t, "meanwhile", small())
	time.Sleep(1500 * time.Millisecond)
	must(t, b.See("is not a duration"))
	must(t, b.Go("/borrowing"))
	must(t, b.Do(chromedp.NavigateBack())) // the browser does not ask whether to send the form again
	must(t, b.Wait(`document.activeElement.id === "panel" && location.search === "?panel=extend"`))
}

// A link without the prefix of this run leads to its page.
func TestALinkWithoutPrefix(t *testing.T) {
	s := shared.pages(t, "rome", "")
	b := tab(t, s, 1280)
	must(t, b.Wait(`localStorage.getItem("prefix") !== null`))
	must(t, b.Open(s.URL()+"find?cpu=1"))
	must(t, b.Wait(`location.pathname.endsWith("/find") && location.search === "?cpu=1"`))
}

// A buyer proposes other terms where plans are on sale. The seller counters them on its page, and the buyer buys.
func TestNegotiation(t *testing.T) {
	shared.request(t, "known", api.ResourceRequestSpec{Request: api.Request{Duration: &metav1.Duration{Duration: time.Hour}, // a seller is known by a deal
		Purchase: &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Units: 1,
			MaxPrice: &api.Price{Amount: "1", Currency: "EUR", Period: api.PeriodHour}}}})
	buyer := tab(t, shared.pages(t, "rome", ""), 1280)
	var o api.ResourceRequest
	for end := time.Now().Add(20 * time.Second); o.Status.Began == nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		must(t, shared.Members["rome"].Objects.Get(context.Background(), key("team", "known"), &o))
	}
	must(t, buyer.Go("/find"))
	must(t, buyer.Do(chromedp.Click(`a[href*="panel=propose"][href*="web"]`)))
	must(t, buyer.See("Propose other terms to milan"))
	must(t, buyer.Do(chromedp.SendKeys("#price", "cheap\r")))
	must(t, buyer.See("is not a price"))
	must(t, buyer.Do(chromedp.Clear("#price"), chromedp.SendKeys("#price", "0.05EUR/hour"), chromedp.SendKeys("#units", "2"),
		chromedp.SendKeys("#message", "for a year\r")))
	must(t, buyer.See("milan has the proposal until"))
	must(t, buyer.See("2 units, 0.05 EUR/hour each"))
	seller := tab(t, shared.pages(t, "milan", ""), 1280)
	must(t, seller.Go("/offers"))
	must(t, seller.See("for a year"))
	must(t, seller.Do(chromedp.Click(`a[href*="panel=counter"]`)))
	must(t, seller.Do(chromedp.SendKeys("#price", "0.07EUR/hour\r")))
	must(t, seller.See("is countered"))
	must(t, buyer.See("On sale to this cluster alone: 0.07 EUR/hour a unit"))
	must(t, buyer.Do(chromedp.Click(`a[href*="buy=milan"]`)))
	must(t, buyer.See("2 units, each 2 CPU, 4 GiB for 0.07 EUR/hour: 3.36 EUR in all"))
	t.Cleanup(func() {
		_ = shared.Members["rome"].Objects.Delete(context.Background(), &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "negotiated"}})
	})
	must(t, buyer.Do(chromedp.Clear("#name"), chromedp.SendKeys("#name", "negotiated"),
		chromedp.Clear("#namespace"), chromedp.SendKeys("#namespace", "team"), chromedp.Click(`section.panel form button`)))
	must(t, buyer.See("ResourceRequest team/negotiated made"))
}

// An open form stays as it was opened, while the page around it changes: with what was typed, and with what was seen. An
// act on what has changed since is refused.
func TestAnOpenFormStays(t *testing.T) {
	shared.request(t, "open", small())
	var o api.ResourceRequest
	wait := func(generation int64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); o.Status.Generation < generation; time.Sleep(100 * time.Millisecond) {
			must(t, shared.Members["rome"].Objects.Get(context.Background(), key("team", "open"), &o))
			if time.Now().After(end) {
				t.Fatal("the provider never agreed")
			}
		}
	}
	wait(1)
	b := tab(t, shared.pages(t, "rome", ""), 1280)
	must(t, b.Go("/requests/team/open?panel=extend"))
	must(t, b.Wait(`socket.readyState === 1`))
	must(t, b.Do(chromedp.Clear("#for"), chromedp.SendKeys("#for", "9h")))
	o.Spec.Duration.Duration = 2 * time.Hour
	must(t, shared.Members["rome"].Objects.Update(context.Background(), &o))
	wait(2)
	must(t, b.Wait(`!document.querySelector("dl").innerText.includes("59m")`))
	for expression, want := range map[string]string{`document.querySelector("#for").value`: "9h",
		`document.querySelector("[name=generation]").value`: "1"} {
		if got, err := browser.Eval[string](b, expression); err != nil || got != want {
			t.Errorf("%s is %q, want %q, %v", expression, got, want, err)
		}
	}
	must(t, b.Do(chromedp.Click("section.panel form button")))
	must(t, b.See("has changed since you saw it"))
}

// What acts on a row is a form of its own, which names the row: a click that lands after rows moved acts on nothing.
func TestAClickAfterRowsMovedActsOnNothing(t *testing.T) {
	buy := func(name string) string {
		t.Helper()
		asked, err := shared.Members["rome"].People.CreateRequest(t.Context(), api.RequestCreate{Namespace: "team", Name: name,
			Request: api.Request{Duration: &metav1.Duration{Duration: time.Hour}, Purchase: &api.Purchase{Seller: "milan",
				Offer: "reviewed", Plan: "rack", Units: 1,
				MaxPrice: &api.Price{Amount: "1", Currency: "EUR", Period: api.PeriodHour}}}})
		must(t, err)
		t.Cleanup(func() {
			_ = shared.Members["rome"].Objects.Delete(context.Background(), &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: name}})
		})
		for end := time.Now().Add(20 * time.Second); asked.Payload.Status.Reservation == ""; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s has no reservation: %+v", name, asked.Payload.Status)
			}
			asked, err = shared.Members["rome"].People.Request(t.Context(), "team", name)
			must(t, err)
		}
		return asked.Payload.Status.Reservation
	}
	first := buy("first")
	b := tab(t, shared.pages(t, "milan", ""), 1280)
	must(t, b.Go("/lending"))
	row := func(id string) string { return fmt.Sprintf(`document.getElementById("approval-%s")`, id) }
	must(t, b.Wait(row(first)+` !== null`))
	second := buy("second")
	must(t, b.Wait(row(second)+` !== null`))
	at, err := browser.Eval[map[string]float64](b, `(() => { const r = `+row(first)+`.querySelector(".acts > *").getBoundingClientRect();
		return {x: r.x + r.width / 2, y: r.y + r.height / 2} })()`)
	must(t, err)
	must(t, shared.Members["rome"].Objects.Delete(t.Context(), &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "first"}}))
	must(t, b.Wait(row(first)+` === null`))
	must(t, b.Do(chromedp.MouseClickXY(at["x"], at["y"]))) // where the first one was is the second one
	must(t, b.See("Not now"))
	seen, err := browser.Eval[string](b, `document.querySelector("section.panel [name=reservation]").value`)
	if err != nil || seen != second {
		t.Errorf("the form is about %s, want %s, %v", seen, second, err)
	}
	waits, err := shared.Members["milan"].People.Approvals(t.Context())
	must(t, err)
	if len(waits) != 1 || waits[0].ID != second {
		t.Errorf("%v wait, want %s", waits, second)
	}
	must(t, b.Do(chromedp.Click("section.panel form button")))
	must(t, b.See(second+" is approved"))
}

// An offer is made and edited by a form, without a script: Enter reviews, and what was reviewed is written.
func TestAnOfferIsEdited(t *testing.T) {
	b := tab(t, shared.pages(t, "milan", ""), 390)
	must(t, b.Script(false))
	t.Cleanup(func() {
		_ = shared.Members["milan"].Objects.Delete(context.Background(), &api.Offer{ObjectMeta: metav1.ObjectMeta{
			Namespace: api.Namespace, Name: "edited"}})
	})
	field := func(i int, name string) string { return fmt.Sprintf(`[name="plans.%d.%s"]`, i, name) }
	must(t, b.Go("/offers?panel=new"))
	b.Faults() // the page before it lost its script amid an update
	must(t, b.Do(chromedp.SendKeys("#offer", "edited"), chromedp.SendKeys(field(0, "name"), "small"),
		chromedp.SendKeys(field(0, "resources.cpu"), "2\r")))
	must(t, b.See("Offer edited is made"))
	must(t, b.Go("/offers?panel=edit&id=edited"))
	must(t, b.Do(chromedp.SendKeys(field(0, "price"), "0.10EUR/hour"), chromedp.Click("#another-plan summary"),
		chromedp.SendKeys(field(1, "name"), "large"), chromedp.SendKeys(field(1, "resources.cpu"), "8\r")))
	must(t, b.See("Nothing is written yet"))
	review, err := browser.Eval[string](b, `document.querySelector("#review").innerText.replace(/\s+/g, " ")`)
	if err != nil || !strings.Contains(review, "plans.large none 8 CPU for free") ||
		!strings.Contains(review, "plans.small.price free 0.10 EUR/hour") {
		t.Errorf("the review says %q, %v", review, err)
	}
	if over, err := browser.Eval[float64](b, `document.documentElement.scrollWidth - innerWidth`); err != nil || over > 0 {
		t.Errorf("%v px of a review are outside, %v", over, err)
	}
	must(t, b.Script(true))
	found, err := check(b)
	must(t, err)
	for _, violation := range found {
		t.Error(violation)
	}
	must(t, b.Script(false))
	must(t, b.Do(chromedp.Click(`section.panel .refusal button`)))
	must(t, b.See("Offer edited is written"))
	must(t, b.Go("/offers?panel=edit&id=edited"))
	must(t, b.Do(chromedp.Click(field(0, "remove")), chromedp.Click(`section.panel form button`)))
	must(t, b.See("Nothing is written yet"))
	must(t, b.Do(chromedp.Click(`section.panel form button`)))
	must(t, b.See("Offer edited is written"))
	var o api.Offer
	must(t, shared.Members["milan"].Objects.Get(context.Background(), key(api.Namespace, "edited"), &o))
	if len(o.Spec.Plans) != 1 || o.Spec.Plans[0].Name != "large" || !o.Spec.Draft {
		t.Errorf("the offer is %+v", o.Spec)
	}
}

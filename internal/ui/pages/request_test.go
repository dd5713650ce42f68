package pages_test

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// The form for another end proposes one that is later than now agreed, and so does the command beside it.
func TestTheFormForAnotherEndProposesALaterOne(t *testing.T) {
	for left, first := range map[time.Duration]string{0: "1h", 25 * time.Minute: "2h", time.Hour: "2h", 9*24*time.Hour + time.Second: "218h"} {
		a := pages.Asked{Namespace: "team", Name: "web"}
		a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
			Began: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(left)}}
		has(t, render(t, pages.Request(view("/requests/team/web", "panel=extend"), a)), `name="for" value="`+first+`"`,
			"bourse -n team extend web --for "+first+`"`)
	}
}

// The form for another size says what becomes of the pods.
func TestTheFormForAnotherSizeSaysWhoIsEvicted(t *testing.T) {
	has(t, render(t, pages.Request(view("/requests/team/web", "panel=resize"), pages.Asked{})),
		"Pods that do not fit a smaller reservation are evicted")
}

// A change that is not in force is shown with what is, and with the commands that withdraw it.
func TestAChangeThatIsRefusedIsShown(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web"}
	a.Request.Payload.Request = api.Request{Resources: amounts("cpu", "8", "nvidia.com/gpu", "1"),
		Duration: &metav1.Duration{Duration: 4 * time.Hour}}
	a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
		Resources: amounts("cpu", "4"), Began: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(time.Hour)},
		Conditions: condition(api.ConditionUpToDate, metav1.ConditionFalse, "Capacity", "it is not changed: Capacity")}
	page := func() string { return render(t, pages.Request(view("/requests/team/web", ""), a)) }
	has(t, page(), "it is not changed: Capacity.", "8 CPU, 1 GPU, until 2026-05-04 16:00:00 UTC", "4 CPU, until 2026-05-04 13:00:00 UTC",
		"/s/0/requests/team/web/withdraw", "bourse -n team resize web --cpu 4 --resource nvidia.com/gpu=0",
		"bourse -n team extend web --until 2026-05-04T13:00:00Z",
		`{&#34;spec&#34;:{&#34;duration&#34;:&#34;1h0m0s&#34;,&#34;resources&#34;:{&#34;cpu&#34;:&#34;4&#34;,&#34;nvidia.com/gpu&#34;:null}}}`)
	a.Request.Payload.Status.Conditions[0].Reason = api.Changing
	hasNot(t, page(), "Refused", "asks again")
	a.Request.Payload.Request.Resources = amounts("cpu", "4000m")
	a.Request.Payload.Request.Duration.Duration = time.Hour
	hasNot(t, page(), "withdraw")
}

// A refusal is of what is asked now. Borrowing and Home say it, too, until it is withdrawn.
func TestARefusedChangeIsOfWhatIsAskedNow(t *testing.T) {
	r := client.RequestStatus{ID: "team/web", Revision: 2}
	r.Payload.Request = api.Request{Resources: amounts("cpu", "100"), Duration: &metav1.Duration{Duration: 48 * time.Hour}}
	r.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
		Resources: amounts("cpu", "2"), Began: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(48 * time.Hour)},
		Conditions: condition(api.ConditionUpToDate, metav1.ConditionFalse, "Capacity", "it is not changed: Capacity")}
	r.Payload.Status.Conditions[0].ObservedGeneration = 2
	shown := func() (request, borrowing, home string) {
		b := pages.NewBorrowed(pages.Listed{Now: now, Requests: slices.Values([]client.RequestStatus{r})})
		return render(t, pages.Request(view("/requests/team/web", ""), pages.Asked{Namespace: "team", Name: "web", Request: r})),
			render(t, pages.Borrowing(view("/borrowing", ""), b)), render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: b}))
	}
	request, borrowing, home := shown()
	has(t, request, "Refused", "it is not changed: Capacity.")
	has(t, borrowing, "its change is refused, and the agent asks again every minute: it is not changed: Capacity")
	has(t, home, "The change of request “web” is refused", "/s/0/requests/team/web#change", "withdraw the change")
	r.Revision, r.Payload.Request.Resources = 3, amounts("cpu", "3") // asked a moment ago
	request, borrowing, home = shown()
	has(t, request, "Asked for", "3 CPU, until")
	hasNot(t, request+borrowing+home, "efused", "it is not changed")
}

// part is the instruction of a part of a split request.
func part(id, provider string, conditions []metav1.Condition) api.ReservationInstruction {
	i := api.ReservationInstruction{Spec: api.Instruction{Reservation: id, Provider: provider, Slice: "rome-" + provider},
		Status: api.InstructionStatus{Conditions: conditions, Granted: amounts("cpu", "4"), Used: amounts("cpu", "1")}}
	i.Name = id
	return i
}

// No part of a split request stands for the others: the stages wait for the last one, and the use is that of all.
func TestAllPartsOfASplitRequestAreShown(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web", Instructions: []api.ReservationInstruction{
		part("r-1", "milan", condition(api.ConditionPeered, metav1.ConditionTrue, "Peered", "")),
		part("r-2", "paris", condition(api.ConditionPeered, metav1.ConditionFalse, "Network", "waits for the gateway of paris"))}}
	a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Reserved, Reservation: "r-1", Provider: "milan",
		Began: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(time.Hour)},
		Parts: []api.RequestPart{{Reservation: "r-1", State: api.Active, Provider: "milan", Resources: amounts("cpu", "4")},
			{Reservation: "r-2", State: api.Reserved, Provider: "paris", Resources: amounts("cpu", "4")}}}
	a.Contracts = []api.Envelope[api.Deal]{anyDeal("r-1", "milan", "rome", "1 EUR", api.Active), anyDeal("r-2", "paris", "rome", "2 EUR", api.Active)}
	html := render(t, pages.Request(view("/requests/team/web", ""), a))
	has(t, html, "waits for the gateway of paris", "2 CPU of 8 CPU", `id="part-r-1"`, `id="part-r-2"`, "rome-paris",
		"bourse contract verify r-1", "bourse contract verify r-2")
	peered, _, _ := strings.Cut(html[strings.Index(html, "<strong>Peered"):], "</li>")
	has(t, peered, "current")
}

// A request with many pods shows 50, those first that cannot run.
func TestManyPodsAreShownByFifty(t *testing.T) {
	all := make([]corev1.Pod, 70)
	for i := range all {
		all[i].Namespace, all[i].Name, all[i].Spec.NodeName = "team", fmt.Sprintf("web-%02d", i), "rome-milan"
		all[i].Status.Phase = corev1.PodRunning
	}
	all[69].Status = corev1.PodStatus{Phase: corev1.PodPending, Reason: hostile}
	all[68].Status.Phase = corev1.PodSucceeded
	pods := pages.NewPods(all)
	a := pages.Asked{Namespace: "team", Name: "web", Pods: &pods}
	html := render(t, pages.Request(view("/requests/team/web", ""), a))
	checkHostile(t, html)
	has(t, html, "team/web-69", "team/web-48", "and 19 more pods")
	hasNot(t, html, "team/web-49<", "team/web-68")
	if strings.Index(html, "team/web-69") > strings.Index(html, "team/web-00") {
		t.Error("a pod that cannot run is not first")
	}
	pods.More = true
	has(t, render(t, pages.Request(view("/requests/team/web", ""), a)), "and at least 19 more pods")
}

// The page says what bourse why says: the place in the queue, who was asked, and who is silent. It has the Events, too.
func TestARequestExplainsWhatTheCommandLineExplains(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web", Reservation: &client.Reservation{ID: "r-1", Payload: api.Reservation{State: api.Pending,
		Waiting: &api.Waiting{Position: 2, Since: metav1.NewTime(now.Add(-5 * time.Minute)), Until: metav1.NewTime(now.Add(time.Hour))},
		Group:   []string{"r-1", "r-2"}, Decision: &api.Decision{Considered: 3},
		Tried: []api.Tried{{Provider: "milan", Reason: "Capacity", Message: hostile}}}}}
	a.Request.Payload.Status.State, a.Request.Payload.Status.Reservation = api.Pending, "r-1"
	silent := anyCluster("milan", "9")
	silent.Payload.HeardAgo = &metav1.Duration{Duration: time.Hour}
	a.Provider = &silent
	a.Events = []explain.Event{{At: now.Add(-time.Minute), Reason: "Pending", Text: "first"}, {At: now, Reason: "Pending", Text: "second"}}
	html := render(t, pages.Request(view("/requests/team/web", ""), a))
	has(t, html, "number 2, waiting for 5m0s", "it is one of 2 parts of a request", "asked milan, which did not accept: Capacity: ",
		"the broker last heard from milan 1h ago", "Events of the last hour")
	if strings.Index(html, "second.") > strings.Index(html, "first.") {
		t.Error("the newest Event is not first")
	}
	checkHostile(t, html)
	a.Reservation.Payload = api.Reservation{State: api.Active, Provider: "milan", Sale: &api.Sale{Units: 2, Plan: "small"}}
	html = render(t, pages.Request(view("/requests/team/web", ""), a))
	has(t, html, "it was bought from milan itself: 2 units of plan small.")
	hasNot(t, html, "No decision is known yet")
}

// What a user may not do with a request or a pool is shut, with the reason and with who can grant it.
func TestWhatOneMayNotDoIsShut(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web"}
	a.Request.Payload.Request.Confirm = true
	a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Held, Reservation: "r-1", Provider: "milan"}
	bound := pages.Asked{Namespace: "team", Name: "web"}
	bound.Request.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
		Began: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(time.Hour)}}
	pool := pages.Pool{}
	pool.Pool.ID, pool.Pool.Payload.Status.Providers = "burst", []api.PoolProvider{{Name: "milan"}}
	held := func(v pages.View) string { return render(t, pages.Request(v, a)) }
	inForce := func(v pages.View) string { return render(t, pages.Request(v, bound)) }
	burst := func(v pages.View) string { return render(t, pages.VirtualNodePool(v, pool)) }
	for _, c := range []struct {
		page       func(pages.View) string
		may        pages.Rights
		shut, open []string
		says       string
	}{
		{held, pages.Rights{Request: true}, []string{"panel=confirm", "panel=release"}, nil, "You may not change or release this request"},
		{inForce, pages.Rights{Request: true, ReleaseRequests: true}, []string{"panel=extend", "panel=resize"}, []string{"panel=release"},
			"ann cannot patch resourcerequests in team"},
		{inForce, pages.Rights{ChangeRequests: true}, []string{"panel=release"}, []string{"panel=extend", "panel=resize"},
			"ann cannot delete resourcerequests in team"},
		{held, everything, nil, []string{"panel=confirm", "panel=release"}, ""},
		{burst, pages.Rights{Request: true}, []string{"panel=stop", "panel=admit"}, nil, "You may not change or stop this pool"},
		{burst, everything, nil, []string{"panel=stop", "panel=admit"}, ""},
	} {
		v := view("/", "")
		v.May = c.may
		html := c.page(v)
		hasNot(t, html, c.shut...)
		has(t, html, c.open...)
		if plain := strings.NewReplacer("<bdi>", "", "</bdi>", "").Replace(html); c.says != "" {
			has(t, plain, c.says, "disabled>")
		} else {
			hasNot(t, plain, "You may not")
		}
	}
	v := view("/", "")
	v.May = pages.Rights{}
	has(t, inForce(v), "bourse-requester", "bourse auth grant ann -n team | kubectl apply -f -")
}

// Each form of a request and of a pool shows the commands that do the same, and the command line knows them.
func TestFormsShowCommandsThatExist(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web"}
	a.Request.Payload.Request = api.Request{Resources: amounts("cpu", "4", "nvidia.com/gpu", "1"), Duration: &metav1.Duration{Duration: 2 * time.Hour}}
	a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Held, Reservation: "r-1", Provider: "milan",
		Resources: amounts("cpu", "4"), Began: &metav1.Time{Time: now.Add(-time.Hour)}, Until: &metav1.Time{Time: now.Add(time.Hour)},
		Conditions: condition(api.ConditionUpToDate, metav1.ConditionFalse, "Capacity", "it is not changed: Capacity")}
	bought := a
	bought.Request.Payload.Request.Purchase = &api.Purchase{Seller: "milan", Offer: "web", Plan: "small", Units: 3}
	bought.Request.Payload.Status.Units = 2
	volumes := a
	volumes.Impact.Volumes = &api.Volumes{Digest: "d1", Count: 1, Claims: []string{"team/data"}}
	pool := pages.Pool{}
	pool.Pool.ID = "burst"
	pool.Pool.Payload.Spec.Providers = api.PoolProviders{Only: []string{"milan", "paris"}, Exclude: []string{"oslo"}}
	shown := ""
	for _, panel := range []string{"", "panel=release", "panel=extend", "panel=resize", "panel=confirm", "panel=stop", "panel=admit&id=milan",
		"panel=admit&id=oslo"} {
		v := view("/", panel)
		shown += render(t, pages.Request(v, a)) + render(t, pages.Request(v, bought)) + render(t, pages.Request(v, volumes)) +
			render(t, pages.VirtualNodePool(v, pool))
	}
	if n := checkCommands(t, shown); n < 14 {
		t.Errorf("only %d commands are shown", n)
	}
	shown = html.UnescapeString(shown)
	has(t, shown, `"kubectl -n team delete resourcerequest web"`, `bourse -n team release web --volumes-die d1`,
		`kubectl -n team patch resourcerequest web --type merge -p '{"spec":{"duration":"3h1m0s"}}'`, // 2h from now, to the minute
		`kubectl -n team patch resourcerequest web --type merge -p '{"spec":{"resources":{"cpu":"4"}}}'`,
		`kubectl -n team patch resourcerequest web --type merge -p '{"spec":{"purchase":{"units":2}}}'`,
		`bourse -n team resize web --units 2`, `kubectl -n team annotate resourcerequest web bourse.dev/confirm=true`,
		`"bourse vnp stop burst"`, `kubectl patch virtualnodepool burst --type merge -p '{"spec":{"providers":{"only":["paris"]}}}'`,
		`kubectl patch virtualnodepool burst --type merge -p '{"spec":{"providers":{"exclude":null,"only":["milan","paris","oslo"]}}}'`)
}

// A contract says how many units it has, and that its price is that of one. A pool says what an hour costs at a provider.
func TestAContractSaysWhatItsPriceIsOf(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "web", Contracts: []api.Envelope[api.Deal]{anyDeal("r-1", "milan", "rome", "1 EUR", api.Active)}}
	has(t, render(t, pages.Request(view("/requests/team/web", ""), a)), "2, together 4 CPU", "Price of a unit</dt>", "0.08 EUR/hour")
	pool := pages.Pool{}
	pool.Pool.Payload.Status.Providers = []api.PoolProvider{{Name: "milan", Cost: "1.20 EUR/h", Price: "0.10 EUR/hour"}}
	has(t, render(t, pages.VirtualNodePool(view("/pools/burst", ""), pool)), "Cost of an hour", "1.20 EUR/h", "0.10 EUR/hour a unit")
}

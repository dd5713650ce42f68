package pages_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// everything are the rights of an admin.
var everything = pages.Rights{Request: true, ChangeRequests: true, ReleaseRequests: true, Propose: true, ChangePools: true,
	AskCluster: true, Lend: true, Approve: true, Sell: true, EditPeers: true, EditBrokers: true}

func view(path, query string) pages.View {
	values, err := url.ParseQuery(query)
	if err != nil {
		panic(err)
	}
	return pages.View{Prefix: "/s/0", Path: path, Query: values, Cluster: "milan", User: "ann", May: everything, Now: now}
}

// render returns the HTML of a page.
func render(t *testing.T, page templ.Component) string {
	t.Helper()
	var out strings.Builder
	if err := page.Render(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// has checks that a page has each text.
func has(t *testing.T, html string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(html, text) {
			t.Errorf("the page has no %q:\n%s", text, html)
		}
	}
}

// hasNot checks that a page has none of the texts.
func hasNot(t *testing.T, html string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(html, text) {
			t.Errorf("the page has %q", text)
		}
	}
}

// hostile is a text of another cluster that would break a page: markup, a mark that turns the direction of text, and
// 10 kB more.
var hostile = `<img src=x onerror=alert(1)>"'` + "\u202e" + strings.Repeat("x", 10<<10)

// checkHostile checks that a page shows the text as text, and not all of it.
func checkHostile(t *testing.T, html string) {
	t.Helper()
	hasNot(t, html, "<img", "\u202e", strings.Repeat("x", 1<<10))
	has(t, html, "&lt;img", "U+202E")
}

func amounts(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		out[pages.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message}}
}

// forbidden is the answer of an API server to who may not read something.
var forbidden = api.Errorf(api.CodeForbidden, "ann cannot list this").Fix("ask an admin for a role")

func anyCluster(id, cpu string) api.Envelope[api.Cluster] {
	return api.Envelope[api.Cluster]{ID: id, Payload: api.Cluster{Fresh: true,
		Properties: api.Properties{Region: "eu"},
		Pools: map[string]api.Amounts{"general": {Shared: amounts("cpu", "100", "memory", "1Ti"),
			Reserved: amounts("cpu", "8"), Available: amounts("cpu", cpu, "memory", "512Gi")}}}}
}

func anyPeer(id, fingerprint, reason string, spec api.PeerSpec) api.Envelope[api.KnownPeer] {
	return api.Envelope[api.KnownPeer]{ID: id, Payload: api.KnownPeer{Spec: spec, Status: api.PeerStatus{
		Fingerprint: fingerprint, Conditions: condition(api.ConditionTrusted, "True", reason, "")}}}
}

func TestClustersSayWhoIsThere(t *testing.T) {
	silent := anyCluster("oslo", "1")
	silent.Payload.Fresh = false
	o := pages.Others{Clusters: pages.Neighbours([]api.Envelope[api.Cluster]{anyCluster("milan", "1"), anyCluster("rome", "9"),
		anyCluster("paris", "40"), silent}),
		Peers: []api.Envelope[api.KnownPeer]{anyPeer("rome", "SHA256:abcd", "FirstUse", api.PeerSpec{}),
			anyPeer("lyon", "SHA256:efgh", "FirstUse", api.PeerSpec{Suspend: true})}}
	html := render(t, pages.Clusters(view("/clusters", ""), o))
	has(t, html, "cluster-rome", "9 CPU", "512 GiB", "Silent", "pinned at the first contact", "Suspended", "4 clusters",
		"bourse clusters -o wide")
	hasNot(t, html, "cluster-milan") // it is this cluster
	html = render(t, pages.Clusters(view("/clusters", "sort=-cpu"), o))
	if strings.Index(html, "cluster-paris") > strings.Index(html, "cluster-rome") {
		t.Error("-cpu does not put the most first")
	}
	has(t, html, `aria-sort="descending"`)
	html = render(t, pages.Clusters(view("/clusters", "q=nobody"), o))
	has(t, html, "No cluster matches the filter")
	html = render(t, pages.Clusters(view("/clusters", "state=Silent"), o))
	has(t, html, "cluster-oslo")
	hasNot(t, html, "cluster-rome")
}

func TestClustersThatCannotBeReadSayWhy(t *testing.T) {
	has(t, render(t, pages.Clusters(view("/clusters", ""), pages.Others{Failed: forbidden})),
		"may not read Clusters here", "bourse-viewer")
	has(t, render(t, pages.Clusters(view("/clusters", ""), pages.Others{})), "No other cluster is visible yet")
}

func TestTenThousandClustersAreShownByFifty(t *testing.T) {
	var all []api.Envelope[api.Cluster]
	for i := range 10_000 {
		all = append(all, anyCluster(fmt.Sprintf("c%04d", i), "9"))
	}
	o := pages.Others{Clusters: pages.Neighbours(all)}
	start := time.Now()
	html := render(t, pages.Clusters(view("/clusters", "page=3&sort=-cpu"), o))
	if n := strings.Count(html, `id="cluster-`); n != 50 {
		t.Errorf("%d lines", n)
	}
	has(t, html, "101–150 of 10000 clusters", "page=2", "page=4")
	t.Logf("rendered within %s", time.Since(start))
	has(t, render(t, pages.Clusters(view("/clusters", "page=999"), o)), "9951–10000 of")
}

// Each list shows 50 lines at most, and leads to the others.
func TestLongListsAreShownByFifty(t *testing.T) {
	var requests []client.RequestStatus
	var lent []api.ProviderInstruction
	var approvals []api.Envelope[api.Approval]
	f := pages.Federation{}
	for i := range 120 {
		name := fmt.Sprintf("n%03d", i)
		r := client.RequestStatus{ID: "team/" + name}
		r.Payload.Status.State = api.Rejected
		requests = append(requests, r)
		lent = append(lent, instruction("r-"+name, fmt.Sprintf("c%d", i/60), api.Active)) // two consumers
		approvals = append(approvals, api.Envelope[api.Approval]{ID: "w-" + name})
		f.Members = append(f.Members, api.Envelope[api.Member]{ID: name, Payload: api.Member{State: api.MemberActive}})
		f.Waiting = append(f.Waiting, api.Envelope[api.Reservation]{ID: "q-" + name})
		f.Tokens = append(f.Tokens, api.Envelope[api.Token]{ID: "t-" + name})
	}
	b := pages.NewBorrowed(pages.Listed{Requests: slices.Values(requests)})
	l, waiting := pages.Lends{Lent: lent}, pages.Lends{Approvals: approvals}
	operator := func(v pages.View) templ.Component { return pages.OperatorPage(v, f) }
	for _, list := range []struct {
		path, query, line string
		page              func(pages.View) templ.Component
		from, to          string
	}{
		{"/borrowing", "page=2", `id="row-`, func(v pages.View) templ.Component { return pages.Borrowing(v, b) }, "n050", "n099"},
		{"/", "page=2", "is Rejected", func(v pages.View) templ.Component {
			return pages.Home(v, pages.Overview{Borrowed: b})
		}, "n050", "n099"},
		{"/lending", "page=2", `id="lent-`, func(v pages.View) templ.Component { return pages.Lending(v, l) }, "r-n050", "r-n099"},
		{"/lending", "waiting=2", `id="approval-`, func(v pages.View) templ.Component {
			return pages.Lending(v, waiting)
		}, "w-n050", "w-n099"},
		{"/", "page=2", `id="member-`, operator, "n050", "n099"},
		{"/", "waiting=2", "<code>q-", operator, "q-n050", "q-n099"},
		{"/", "tokens=2", "<code>t-", operator, "t-n050", "t-n099"},
	} {
		html := render(t, list.page(view(list.path, list.query)))
		if n := strings.Count(html, list.line); n != 50 {
			t.Errorf("%s?%s shows %d lines", list.path, list.query, n)
		}
		key, _, _ := strings.Cut(list.query, "=")
		has(t, html, list.from, list.to, "51–100 of 120", key+"=1", key+"=3")
	}
	html := render(t, pages.Lending(view("/lending", "page=2"), l)) // it cuts through both consumers
	has(t, html, "consumer-c0", "consumer-c1", "60 reservations", "r-n059", "r-n060")
}

func TestClusterShowsWhatIsBetweenUs(t *testing.T) {
	c := anyCluster("rome", "9")
	peer := anyPeer("rome", "SHA256:JlF-JBgRBvh3", "FirstUse", api.PeerSpec{})
	o := pages.Other{Name: "rome", Cluster: &c, Peer: &peer,
		Peerings: []api.Peering{{Spec: api.PeeringSpec{Cluster: "rome", Role: api.RoleConsumer}, Status: api.PeeringStatus{
			State: api.PeeringOpening, Step: "Network", Message: "waits for the gateway"}}},
		Audit: &api.Audit{Cluster: "rome", Digest: "d1", Reservations: map[string]api.Resources{"r-1": amounts("cpu", "4")},
			Namespaces: []api.AuditNamespace{{Name: "team-rome", Pods: 3, Volumes: []string{"data"}}}}}
	o.Between = append(o.Between, api.Envelope[api.Reservation]{ID: "r-1", Payload: api.Reservation{Consumer: "rome",
		Provider: "milan", State: api.Active, Resources: amounts("cpu", "4"), Until: metav1.NewTime(now.Add(time.Hour))}})
	html := render(t, pages.Cluster(view("/clusters/rome", ""), o))
	has(t, html, "<span>JlF-</span>", "<span>JBgR</span>", "Pinned at the first contact, not confirmed", "Opening",
		"waits for the gateway", "it borrows from this cluster", "8 of 100 CPU reserved, 9 CPU free", "1 namespace")
	html = render(t, pages.Cluster(view("/clusters/rome", "panel=evict"), o))
	has(t, html, "What ends here: 1 reservation. What is deleted: 3 pods, and 1 volume with the data.", "team-rome/data",
		`name="digest" value="d1"`, "Type the name of the cluster")
	html = render(t, pages.Cluster(view("/clusters/rome", "panel=trust"), o))
	has(t, html, `name="fingerprint" value="SHA256:JlF-JBgRBvh3"`, "I compared it")
	v := view("/clusters/rome", "")
	v.May = pages.Rights{}
	html = render(t, pages.Cluster(v, o))
	has(t, html, "You may not confirm, suspend or evict it", "bourse-provider-admin")
	if strings.Count(html, "disabled>") < 3 {
		t.Error("who may do nothing finds open acts")
	}
}

func TestForeignTextIsNoMarkup(t *testing.T) {
	c := anyCluster("rome", "9")
	c.Payload.Properties.Region, c.Payload.Properties.GPUs = hostile, []string{hostile}
	c.Payload.Properties.Labels = map[string]string{hostile: hostile}
	peer := anyPeer("rome", "SHA256:abcd", "FirstUse", api.PeerSpec{SuspendReason: hostile, Suspend: true})
	checkHostile(t, render(t, pages.Clusters(view("/clusters", ""), pages.Others{Clusters: pages.Neighbours([]api.Envelope[api.Cluster]{c})})))
	checkHostile(t, render(t, pages.Cluster(view("/clusters/rome", "panel=evict"), pages.Other{Name: "rome", Cluster: &c,
		Peer: &peer, Audit: &api.Audit{Bindings: []string{hostile}, Namespaces: []api.AuditNamespace{{Name: hostile}}}})))
	checkHostile(t, render(t, pages.Lending(view("/lending", ""), pages.Lends{
		Approvals: []api.Envelope[api.Approval]{{ID: "r-1", Payload: api.Approval{Consumer: hostile, Offer: hostile}}},
		Lent: []api.ProviderInstruction{{Spec: api.Instruction{Consumer: hostile, Pool: hostile}, Status: api.InstructionStatus{
			State: api.Active, Conditions: condition(api.ConditionOverstaying, "True", "PodsStay", hostile)}}}})))
}

func instruction(name, consumer string, state api.State) api.ProviderInstruction {
	i := api.ProviderInstruction{Spec: api.Instruction{Reservation: name, Consumer: consumer, Pool: "general",
		Resources: amounts("cpu", "4"), Until: metav1.NewTime(now.Add(time.Hour))},
		Status: api.InstructionStatus{State: state, SharedBy: 2, Granted: amounts("cpu", "4"),
			Account: &api.AccountSum{Granted: amounts("cpu", "8"), Used: amounts("cpu", "3")}}}
	i.Name = name
	return i
}

func TestLendingSaysWhoHasWhat(t *testing.T) {
	late := instruction("r-3", "paris", api.Released)
	late.Status.Conditions = condition(api.ConditionOverstaying, "True", "PodsStay", "2 pods use 1 CPU still")
	l := pages.Lends{Lent: []api.ProviderInstruction{late, instruction("r-1", "rome", api.Active),
		instruction("r-2", "rome", api.Active)}, Policy: &api.SharingPolicy{Spec: api.Sharing{Terms: api.Terms{
		MaxDuration: &metav1.Duration{Duration: 8 * time.Hour}, Allow: `consumer.region == "eu"`}}},
		Approvals: []api.Envelope[api.Approval]{{ID: "r-9", Payload: api.Approval{Consumer: "oslo", Generation: 2, Digest: "d9",
			Resources: amounts("cpu", "2"), Pool: "general", Offer: "web", Plan: "small", Units: 2, Price: "0.08 EUR/hour",
			By: metav1.NewTime(now.Add(time.Hour)), Until: metav1.NewTime(now.Add(8 * time.Hour))}}}}
	html := render(t, pages.Lending(view("/lending", ""), l))
	has(t, html, "2 units of web/small at 0.08 EUR/hour each",
		"the request moves on in 60m", "<strong>8 CPU</strong>", `"Granted">8 CPU</td>`, `"Granted">4 CPU</td>`,
		`"In use">3 CPU</td>`, `"In use">in the sum</td>`, "Overstays",
		"2 pods use 1 CPU still", "consumer.region", "8h")
	if strings.Index(html, "consumer-paris") > strings.Index(html, "consumer-rome") {
		t.Error("who overstays is not first")
	}
	has(t, render(t, pages.Lending(view("/lending", "panel=approve&id=r-9"), l)), "Approve oslo", `name="digest" value="d9"`,
		`name="generation" value="2"`)
	has(t, render(t, pages.Lending(view("/lending", "panel=refuse&id=r-9"), l)), "Refuse oslo", "Reason, which it reads")
	has(t, render(t, pages.Lending(view("/lending", "panel=refuse&id=gone"), l)), "does not wait any more")
	has(t, render(t, pages.Lending(view("/lending", "panel=policy"), l)), "maxDuration: 8h0m0s", `name="generation"`)
	has(t, render(t, pages.Lending(view("/lending", ""), pages.Lends{})), "This cluster lends nothing")
	has(t, render(t, pages.Lending(view("/lending", ""), pages.Lends{Failed: map[string]*api.Error{
		"ProviderInstructions": forbidden}})), "may not read ProviderInstructions here")
}

func TestRefusedPolicyKeepsWhatWasTyped(t *testing.T) {
	v := view("/lending", "panel=policy")
	v.Failed, v.Typed = api.Invalid("yaml", "it is no spec"), url.Values{"yaml": {"polls: []"}}
	has(t, render(t, pages.Lending(v, pages.Lends{})), "polls: []", "it is no spec")
}

// A policy that somebody else changed since is not written over: the page shows what the text would make of it, and lets
// it be written once it was previewed against the new one.
func TestAPolicyIsNotWrittenOverAnother(t *testing.T) {
	policy := &api.SharingPolicy{Spec: api.Sharing{Labels: map[string]string{"rack": "a1"}}}
	policy.Generation = 3
	v := view("/lending", "panel=policy")
	v.Failed = api.Errorf(api.CodeConflict, "it has changed since you saw it")
	v.Typed = url.Values{"yaml": {"maxDuration: 8h"}, "generation": {"2"}}
	has(t, render(t, pages.Lending(v, pages.Lends{Policy: policy})), "Somebody else changed the policy", "<code>labels.rack</code>",
		"<code>maxDuration</code>", `name="generation" value="2"`)
	v.Failed = nil
	v.Preview = pages.PolicyReview{Before: policy.Spec, After: api.Sharing{Terms: api.Terms{MaxDuration: &metav1.Duration{Duration: 8 * time.Hour}}},
		Generation: 3, Shares: &api.SharingPreview{}}
	has(t, render(t, pages.Lending(v, pages.Lends{Policy: policy})), "Nothing is written yet", "<code>labels.rack</code>",
		"<code>maxDuration</code>", "8h0m0s", `name="generation" value="3"`)
	v.Preview, v.Failed = nil, api.Invalid("yaml", "it is no spec")
	v.Typed.Set("generation", "3")
	hasNot(t, render(t, pages.Lending(v, pages.Lends{Policy: policy})), "Somebody else")
}

// A cluster that has nothing here cannot be evicted, nor can the own one. A list names GPUs with how many are free.
func TestAClusterWithoutReservationsIsNotEvicted(t *testing.T) {
	c := anyCluster("rome", "9")
	o := pages.Other{Name: "rome", Cluster: &c, Audit: &api.Audit{Cluster: "rome"}}
	hasNot(t, render(t, pages.Cluster(view("/clusters/rome", ""), o)), "panel=evict")
	o.Audit.Reservations = map[string]api.Resources{"r-1": amounts("cpu", "4")}
	has(t, render(t, pages.Cluster(view("/clusters/rome", ""), o)), "panel=evict")
	c.ID, o.Name = "milan", "milan" // a cluster has no acts on itself
	own := render(t, pages.Cluster(view("/clusters/milan", ""), o))
	has(t, own, "This is your own cluster")
	hasNot(t, own, "panel=evict", "panel=suspend", "panel=trust", "Between us", "no peering", "not met")
	c = anyCluster("rome", "9")
	list := func() string {
		return render(t, pages.Clusters(view("/clusters", ""), pages.Others{Clusters: pages.Neighbours([]api.Envelope[api.Cluster]{c})}))
	}
	c.Payload.Properties.GPUs = []string{"NVIDIA-A100"}
	hasNot(t, list(), "free: NVIDIA")
	c.Payload.Pools = map[string]api.Amounts{"general": {Available: amounts("nvidia.com/gpu", "3")}}
	has(t, list(), "3 free: NVIDIA-A100")
}

// What Git decides about is shown read-only, with what keeps it.
func TestWhatGitKeepsIsReadOnly(t *testing.T) {
	active := client.RequestStatus{ID: "team/web"}
	active.Payload.Status.State, active.Payload.Status.Began = api.Active, &metav1.Time{Time: now}
	offer := anyOffer("web", "OnSale", "True", false)
	policy := &api.SharingPolicy{}
	policy.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "milan:default"}
	for what, page := range map[string]templ.Component{
		"This ResourceRequest is kept by Flux": pages.Request(view("/requests/team/web", ""), pages.Asked{Namespace: "team",
			Name: "web", Request: active, Git: "Flux"}),
		"This VirtualNodePool is kept by Flux": pages.VirtualNodePool(view("/pools/burst", ""), pages.Pool{Git: "Flux"}),
		"This offer is kept by Flux": pages.Offers(view("/offers", ""), pages.Sales{Offers: []api.Envelope[api.OwnOffer]{offer},
			Git: map[string]string{"web": "Flux"}}),
		"This SharingPolicy is kept by Argo CD": pages.Lending(view("/lending", "panel=policy"), pages.Lends{Policy: policy}),
	} {
		html := render(t, page)
		has(t, html, what, "Change it in Git", "disabled>")
		hasNot(t, html, "panel=extend", "panel=release", "panel=stop", "panel=sale", "panel=edit")
	}
}

// The search finds things by a part of their name, says what kind they are, and counts what it does not show.
func TestSearchFindsByName(t *testing.T) {
	e := pages.Everything{Failed: map[string]*api.Error{"Offers of other clusters": forbidden}}
	var requests []client.RequestStatus
	for i := range 12 {
		requests = append(requests, client.RequestStatus{ID: fmt.Sprintf("team/train-%d", i)})
	}
	e.Borrowed = pages.NewBorrowed(pages.Listed{Requests: slices.Values(requests),
		Pools: []api.Envelope[api.KnownVirtualNodePool]{{ID: "trains"}}})
	e.Others.Clusters = pages.Neighbours([]api.Envelope[api.Cluster]{anyCluster("trainstation", "9"), anyCluster("rome", "9")})
	e.Brokers = []api.Envelope[api.KnownBroker]{{ID: hostile}}
	html := render(t, pages.Search(view("/search", "q=TRAIN"), e))
	has(t, html, "/s/0/pools/trains", "/s/0/requests/team/train-", "All 12", "/s/0/clusters/trainstation", "may not read Offers of other clusters")
	hasNot(t, html, "rome", "Brokers</h2>")
	has(t, render(t, pages.Search(view("/search", "q=zug"), e)), "Nothing has “zug” in its name")
	hasNot(t, render(t, pages.Search(view("/search", ""), e)), "Nothing has", "<h2>")
	has(t, render(t, pages.Search(view("/search", "q=lend"), e)), "/s/0/lending")
	checkHostile(t, render(t, pages.Search(view("/search", "q=onerror"), e)))
}

// What a user may not read is one sentence, and no page says that it is empty.
func TestWhatMayNotBeReadIsNotEmpty(t *testing.T) {
	l := pages.Lends{Failed: map[string]*api.Error{"SharingPolicies": forbidden, "ProviderInstructions": forbidden,
		"Advertisements": forbidden}}
	html := render(t, pages.Lending(view("/lending", ""), l))
	has(t, html, "may not read Advertisements, ProviderInstructions, SharingPolicies here", "bourse-viewer")
	hasNot(t, html, "No cluster has anything", "There is none", "No pool", "ann cannot list this")
	l.Failed = map[string]*api.Error{"SharingPolicies": api.Errorf(api.CodeUnavailable, "the API server is away")}
	html = render(t, pages.Lending(view("/lending", ""), l))
	has(t, html, "SharingPolicies cannot be read", "the API server is away", "No cluster has anything")
	hasNot(t, html, "There is none", "may not read")
	html = render(t, pages.Brokers(view("/brokers", ""), pages.Market{Failed: forbidden}))
	has(t, html, "may not read Brokers here")
	hasNot(t, html, "First steps", "has no broker")
}

// A request whose pods cannot run at its provider is named first, though its reservation is Active.
func TestPodsThatCannotRunAreNamed(t *testing.T) {
	r := client.RequestStatus{ID: "team/train"}
	r.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
		Until: &metav1.Time{Time: now.Add(100 * time.Hour)}}
	for kind, title := range map[string]string{
		api.ConditionPodsComply: "some pods cannot run at milan", api.ConditionOffloaded: "a namespace is not offloaded to milan",
		api.ConditionReflected: "not all that pods need is copied to milan"} {
		fault := map[string]metav1.Condition{"team/r-1": {Type: kind, Status: "False", Message: "pod web requests no cpu"}}
		b := pages.NewBorrowed(pages.Listed{Requests: slices.Values([]client.RequestStatus{r}), Faults: fault})
		has(t, render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: b})), "Request “train”: "+title, "pod web requests no cpu.")
		has(t, render(t, pages.Borrowing(view("/borrowing", ""), b)), `data-tone="warn"`, "pod web requests no cpu")
	}
	well := pages.NewBorrowed(pages.Listed{Requests: slices.Values([]client.RequestStatus{r})})
	has(t, render(t, pages.Home(view("/", ""), pages.Overview{Borrowed: well})), "Nothing waits for you")
}

// Before a release the page names the pods that end with it.
func TestAReleaseNamesThePods(t *testing.T) {
	a := pages.Asked{Namespace: "team", Name: "train", Impact: api.Impact{Pods: &api.Pods{Count: 3, Names: []string{"team/web-1"}}}}
	a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
		Began: &metav1.Time{Time: now}}
	has(t, render(t, pages.Request(view("/requests/team/train", "panel=release"), a)), "3 pods (team/web-1 and 2 more)")
}

// The menu names the namespaces that the pages show, the first of many, and how to see others.
func TestTheMenuNamesNamespaces(t *testing.T) {
	v := view("/brokers", "")
	for want, names := range map[string][]string{"Showing namespace team": {"team"}, "Showing namespaces a, b": {"a", "b"},
		"Showing namespaces a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"}} {
		v.Namespaces = names
		has(t, render(t, pages.Layout(v, pages.NotFound(v))), want, "<code>bourse ui -n NS</code>", "<code>bourse ui -A</code>")
	}
	v.Namespaces = nil
	hasNot(t, render(t, pages.Layout(v, pages.NotFound(v))), "Showing namespace", "bourse ui -A")
}

// A shared virtual node has pods of others: the form says which part is of the request, and that the rest is not.
func TestAReleaseTellsItsPodsFromThoseOfOthers(t *testing.T) {
	i := part("r-1", "milan", nil)
	i.Status.SharedBy = 3
	i.Status.Namespaces = []api.NamespaceUse{{Name: "shop", Used: amounts("cpu", "9")}}
	a := pages.Asked{Namespace: "team", Name: "web", Instructions: []api.ReservationInstruction{i},
		Impact: api.Impact{Pods: &api.Pods{Count: 2}}}
	a.Request.Payload.Offload = &api.Offload{Namespaces: []string{"team"}}
	a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan", Began: &metav1.Time{Time: now}}
	form := func() string { return render(t, pages.Request(view("/requests/team/web", "panel=release"), a)) }
	has(t, form(), "No pod of team uses this reservation.", "3 reservations of this cluster share the virtual node",
		"also of namespaces that you may not see", "The pods of all of them there: 2 pods")
	a.Instructions[0].Status.Namespaces[0].Name, a.Instructions[0].Status.SharedBy = "team", 1
	has(t, form(), "Pods of team use 9 CPU of this reservation.", "On the virtual node: 2 pods")
	hasNot(t, form(), "you may not see")
}

package pages_test

import (
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

func anyBroker(name, reason string, status metav1.ConditionStatus, disabled bool) api.Envelope[api.KnownBroker] {
	return api.Envelope[api.KnownBroker]{ID: name, Payload: api.KnownBroker{
		Spec: api.BrokerSpec{Disabled: disabled, Join: "secret-token"}, Reservations: 3,
		LastHeard: metav1.NewTime(now.Add(-time.Minute)), Status: api.BrokerStatus{URL: "https://b.example:7443",
			Conditions: condition(api.ConditionConnected, status, reason, "the token is used up")}}}
}

func TestBrokersSayWhetherTheyAnswer(t *testing.T) {
	m := pages.Market{Brokers: []api.Envelope[api.KnownBroker]{anyBroker("main", "Connected", "True", false),
		anyBroker("north", "NotJoined", "False", false), anyBroker("old", "Disabled", "False", true)},
		Offers: 5, CopyOf: now.Add(-2 * time.Hour), Shares: true, Borrows: true}
	html := render(t, pages.Brokers(view("/brokers", ""), m))
	has(t, html, "Connected", "NotJoined", "the token is used up", "Disabled", "60s ago", "https://b.example:7443", "Enable",
		"this agent&#39;s copy of the catalog, of 2026-05-04 10:00:00 UTC")
	hasNot(t, html, "secret-token", "First steps")
	has(t, render(t, pages.Brokers(view("/brokers", "panel=disable&id=main"), m)), "What was reserved there stays to its end: 3 reservations.")
	m.Git = map[string]string{"old": "Argo CD"}
	html = render(t, pages.Brokers(view("/brokers", ""), m))
	has(t, html, "kept by Argo CD as it is in Git")
	hasNot(t, html, "panel=enable")
	v := view("/brokers", "panel=add")
	v.Failed, v.Typed = api.Invalid("join", "it is malformed"), url.Values{"broker": {"north"}, "join": {"secret-token"}}
	html = render(t, pages.Brokers(v, m))
	has(t, html, "it is malformed", `value="north"`)
	hasNot(t, html, "secret-token")
	has(t, render(t, pages.Brokers(view("/brokers", ""), pages.Market{})), "First steps", "Makes: the SharingPolicy default",
		"This cluster has no broker", "To do")
	has(t, render(t, pages.Brokers(view("/brokers", ""), pages.Market{Failed: forbidden, NoCatalog: forbidden})), "ann cannot list this")
	foreign := anyBroker("north", hostile, "False", false)
	foreign.Payload.Status.Conditions[0].Message, foreign.Payload.Status.URL = hostile, hostile
	checkHostile(t, render(t, pages.Brokers(view("/brokers", ""), pages.Market{Brokers: []api.Envelope[api.KnownBroker]{foreign}})))
}

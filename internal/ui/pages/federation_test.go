package pages_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

func anyMember(id string, caps *api.Caps) api.Envelope[api.Member] {
	return api.Envelope[api.Member]{ID: id, Payload: api.Member{State: api.MemberActive, Fresh: true, Caps: caps,
		Fingerprint: "SHA256:JlF-JBgRBvh3"}}
}

// An operator sees who keeps its word, what all share, and who waits the longest.
func TestOperatorPage(t *testing.T) {
	kept, up := int64(960_000), int64(999_000)
	f := pages.Federation{Trade: pages.NewTrade(), Members: []api.Envelope[api.Member]{anyMember("milan", nil),
		anyMember("rome", &api.Caps{Reservations: 5, Resources: amounts("cpu", "64", "memory", "1Gi")})}}
	for _, id := range []string{"milan", "rome"} {
		c := api.Envelope[api.Cluster]{ID: id, Payload: api.Cluster{Pools: map[string]api.Amounts{"default": {
			Shared: amounts("cpu", "10"), Reserved: amounts("cpu", "4")}}}}
		if id == "milan" {
			c.Payload.Uptime, c.Payload.Honoured, c.Payload.Overcommitted = &up, &kept, true
		}
		f.Trade.Add([]api.Envelope[api.Cluster]{c})
	}
	reservations := []api.Envelope[api.Reservation]{
		{ID: "r-lent", Payload: api.Reservation{State: api.Active, Consumer: "rome", Provider: "milan"}},
		{ID: "r-over", Payload: api.Reservation{State: api.Released, Consumer: "rome", Provider: "milan"}},
	}
	for id, ago := range map[string]time.Duration{"r-new": time.Minute, "r-old": time.Hour} {
		reservations = append(reservations, api.Envelope[api.Reservation]{ID: id, Payload: api.Reservation{State: api.Pending,
			Consumer: "rome", Waiting: &api.Waiting{Since: metav1.NewTime(now.Add(-ago))}}})
	}
	f.Count(reservations)
	html := render(t, pages.OperatorPage(view("/", ""), f))
	has(t, html, "default: CPU", "8 CPU of 20 CPU reserved", "99.9", "96", "Overcommitted", "5 reservations, 64 cpu, 1Gi memory")
	if strings.Index(html, "r-old") > strings.Index(html, "r-new") {
		t.Error("who waits the longest is not the first")
	}
	has(t, render(t, pages.OperatorPage(view("/", "panel=cap&id=rome"), f)), `value="5"`, `value="64"`, `value="1Gi"`,
		"bourse broker cap rome", "the bound for every member")
	has(t, render(t, pages.OperatorPage(view("/", "panel=remove&id=rome"), f)), "It borrows by 1 reservation and lends by 0 reservations.")
	has(t, render(t, pages.OperatorPage(view("/", "panel=revoke&id=milan"), f)), "It borrows by 0 reservations and lends by 1 reservation.")
	has(t, render(t, pages.OperatorPage(view("/", "q=nobody"), f)), "No member matches")
	for expires, voidable := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
		f.Tokens = []api.Envelope[api.Token]{{ID: "t-1", Payload: api.Token{Expires: metav1.NewTime(now.Add(expires))}}}
		if strings.Contains(render(t, pages.OperatorPage(view("/", ""), f)), "Make void") != voidable {
			t.Errorf("a token that expires in %s can be made void: %t", expires, !voidable)
		}
	}
	f.Failed = api.Errorf(api.CodeUnavailable, "the broker does not answer")
	hasNot(t, render(t, pages.OperatorPage(view("/", ""), f)), "<dt>Active</dt>")
	f = pages.Federation{Members: []api.Envelope[api.Member]{anyMember("rome", nil)}}
	f.Members[0].Payload.Source, f.Members[0].Payload.Software = hostile, hostile
	checkHostile(t, render(t, pages.OperatorPage(view("/", ""), f)))
}

package sharing_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
)

// A preview shows what a policy would show, keep and hide, and changes nothing.
func TestPreviewOfAPolicy(t *testing.T) {
	l := newLender(t)
	sent := l.advertises(func(api.Measurement) error { return nil })
	l.accepts("r-1", "2")
	next(t, sent, "what it accepted", func(m api.Measurement) bool {
		return len(m.Pools[api.GeneralPool].Accounts["rome"].Commitments) > 0
	})
	of := func(id, region string) api.Envelope[api.Cluster] {
		return api.Envelope[api.Cluster]{ID: id, Payload: api.Cluster{Properties: api.Properties{Labels: map[string]string{
			"region": region}}}}
	}
	others := []api.Envelope[api.Cluster]{of("rome", "eu"), of("oslo", "us"), of("milan", "eu"), of("paris", "fr")}
	cpu := func(text string) api.Resources { return api.Resources{"cpu": resource.MustParse(text)} }
	policy := api.Sharing{Terms: api.Terms{VisibleTo: api.Audience{Clusters: []string{"paris"}}},
		Pools: []api.PoolPolicy{{Name: api.GeneralPool, Caps: cpu("1")}}}
	p, err := l.advertiser.Preview(t.Context(), policy, others)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"pool general: you would show cpu=1 example.com/npu=4, now cpu=8 example.com/npu=4",
		"pool general: cpu=2 reserved stay, to their end",
		"pool general: cpu=1 more is reserved than you would show: it is Overcommitted until reservations end",
		"2 clusters would no longer see you: rome, oslo",
		"of these, what is reserved stays: rome",
	}
	if got := explain.SharingPreview(p); !slices.Equal(got, want) {
		t.Errorf("it says %q", got)
	}
	for labels, want := range map[string][]string{"": {"rome"}, "eu": {}} { // rome shares nothing: no broker shows it, nor its labels
		policy.VisibleTo.Labels = map[string]string{}
		if labels != "" {
			policy.VisibleTo.Labels["region"] = labels
		}
		p, err = l.advertiser.Preview(t.Context(), policy, others[3:])
		if err != nil || !slices.Equal(p.LoseSight, want) || !slices.Equal(p.Holders, want) {
			t.Errorf("with labels %q: %v lose sight, %v hold, %v", labels, p.LoseSight, p.Holders, err)
		}
	}
	policy = api.Sharing{Pools: []api.PoolPolicy{{Name: "big"}}}
	if p, err = l.advertiser.Preview(t.Context(), policy, others); err != nil || p.Pools["big"].Then == nil ||
		p.Pools[api.GeneralPool].Then != nil || len(p.LoseSight) > 0 {
		t.Errorf("of another pool: %+v, %v", p, err)
	}
	policy.Allow = "nonsense("
	if _, err := l.advertiser.Preview(t.Context(), policy, others); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("of a policy that is not valid: %v", err)
	}
	if left := l.market.View().Listing("milan").Pool(api.GeneralPool).Available.Resources()["cpu"]; left.String() != "6" {
		t.Errorf("the books now have %s left", left.String())
	}
}

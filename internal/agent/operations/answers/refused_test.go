package answers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func (a *agent) FindRefused(context.Context, *api.ResourceRequest) (map[string]error, error) {
	return map[string]error{"paris": api.Errorf(api.CodeInUse, "paris serves a VirtualNodePool of this cluster")}, nil
}

func (a *agent) FindPassedOver(ctx context.Context) (map[string]error, error) {
	return a.FindRefused(ctx, nil)
}

func (a *agent) FindDisabled(_ context.Context, providers []string) []string {
	return slices.DeleteFunc(slices.Clone(providers), func(name string) bool { return name != "oslo" && name != "rome" })
}

func (a *agent) CheckAsk(context.Context, api.Request) error { return nil }

func (a *agent) CheckCard(_ context.Context, _ *api.ResourceRequest, provider, card string) (refused, err error) {
	if card == "unreachable" {
		return api.Errorf(api.CodeUnreachable, "no way to %s", provider), nil
	}
	return nil, nil
}

// What the consumer's own agent passes over is named as that, and the numbers still add up.
func TestWithRefused(t *testing.T) {
	refused := map[string]error{"paris": api.Errorf(api.CodeInUse, "paris serves a pool"),
		"oslo": api.Errorf(api.CodeNamespacesFull, "oslo is full"), "bern": api.Errorf(api.CodeInUse, "not asked")}
	e := withRefused(api.Evaluation{
		Decision: api.Decision{Considered: 5, Candidates: 1,
			Eliminated:  []api.Elimination{{Filter: "fresh", Reason: "Silent", Count: 1}, {Filter: "exclude", Reason: "Excluded", Count: 3}},
			NearestMiss: &api.Miss{Cluster: "paris", Filter: "exclude", Message: "is excluded by the request"}},
		Clusters: []api.Verdict{{Cluster: "milan", Score: 7}, {Cluster: "paris", Filter: "exclude", Reason: "Excluded"},
			{Cluster: "oslo", Filter: "exclude", Reason: "Excluded"}, {Cluster: "lyon", Filter: "exclude", Reason: "Excluded"},
			{Cluster: "bern", Filter: "fresh", Reason: "Silent"}},
	}, refused)
	want := []api.Elimination{{Filter: "fresh", Reason: "Silent", Count: 1}, {Filter: "agent", Reason: "InUse", Count: 1},
		{Filter: "agent", Reason: "NamespacesFull", Count: 1}, {Filter: "exclude", Reason: "Excluded", Count: 1}}
	if !reflect.DeepEqual(e.Decision.Eliminated, want) {
		t.Errorf("eliminated: %+v", e.Decision.Eliminated)
	}
	if paris := e.Clusters[1]; paris.Filter != "agent" || paris.Reason != "InUse" || paris.Message != "paris serves a pool" {
		t.Errorf("paris: %+v", paris)
	}
	if e.Clusters[3].Filter != "exclude" || e.Clusters[4].Filter != "fresh" {
		t.Errorf("the others: %+v", e.Clusters[3:])
	}
	if m := e.Decision.NearestMiss; m.Filter != "agent" || m.Message != "paris serves a pool" {
		t.Errorf("nearest miss: %+v", m)
	}
}

// chooses is a broker that chooses the first provider that a request does not exclude.
type chooses struct {
	transport.Broker
	from  []string
	asked []api.Request
	parts int // that it says; 0: as many as were asked for
	shown int // how many providers it was asked about
}

func (b *chooses) Fit(_ context.Context, q api.EvaluationCreate) (e api.Evaluation, err error) {
	b.asked = append(b.asked, q.Request)
	for _, one := range b.from {
		switch {
		case slices.Contains(q.Request.Exclude, one):
			e.Clusters = append(e.Clusters, api.Verdict{Cluster: one, Filter: "exclude", Reason: "Excluded"})
		case e.Decision.Chosen == "":
			e.Decision.Chosen, e.Decision.Parts = one, cmp.Or(b.parts, int(q.Request.Split))
			fallthrough
		default:
			e.Decision.Top = append(e.Decision.Top, api.Scored{Cluster: one})
			if q.Fits > 0 && e.Fits == nil {
				e.Fits = &api.Fits{}
			}
			if e.Fits != nil {
				e.Fits.Clusters = append(e.Fits.Clusters, api.Fit{Cluster: one})
				e.Fits.Qualified++
			}
		}
	}
	return e, nil
}

func (b *chooses) Cluster(_ context.Context, id string) (api.Envelope[api.Cluster], error) {
	b.shown++
	card := "usable"
	if strings.HasPrefix(id, "far") {
		card = "unreachable"
	}
	return api.Envelope[api.Cluster]{ID: id, Payload: api.Cluster{Card: card}}, nil
}

// A preview chooses no provider that this cluster would pass over, and says why.
func TestPreview(t *testing.T) {
	c, _ := newCluster(t)
	b := &chooses{from: []string{"paris", "far-1", "far-2", "milan", "far-3", "oslo"}}
	var q api.DryRun
	q.Request = transporttest.Request("2")
	e, err := c.Preview(t.Context(), b, q)
	if err != nil || e.Decision.Chosen != "milan" || len(b.asked) != 3 || len(b.asked[2].StickTo) != 1 {
		t.Errorf("it chooses %+v after %d questions, %v", e.Decision, len(b.asked), err)
	}
	for i, want := range []string{"InUse", "ApiServerUnreachable", "ApiServerUnreachable"} {
		if e.Clusters[i].Filter != "agent" || e.Clusters[i].Reason != want {
			t.Errorf("%+v, want %s", e.Clusters[i], want)
		}
	}
	q.Request.Split = 2
	if e, err := c.Preview(t.Context(), b, q); err != nil || e.Decision.Top[1].Cluster != "oslo" {
		t.Errorf("in parts, it chooses %+v, %v", e.Decision, err)
	}
	many := &chooses{parts: 1000}
	for i := range 1000 {
		many.from = append(many.from, fmt.Sprint("p-", i))
	}
	if _, err := c.Preview(t.Context(), many, q); err != nil || many.shown != 2 {
		t.Errorf("a broker says 1,000 parts of 2: it is asked about %d providers, %v", many.shown, err)
	}
	for target, code := range map[string]api.Code{"paris": api.CodeInUse, "far-1": api.CodeUnreachable} {
		q.Request.Target = target
		if _, err := c.Preview(t.Context(), &chooses{from: []string{target}}, q); api.CodeOf(err) != code {
			t.Errorf("the only provider %s is refused with %v", target, err)
		}
	}
	far := &chooses{}
	for i := range 50 {
		far.from = append(far.from, fmt.Sprint("far-", i))
	}
	q.Request.Target = ""
	if _, err := c.Preview(t.Context(), far, q); api.CodeOf(err) != api.CodeUnavailable || len(far.asked) != evaluatedAtMost {
		t.Errorf("it asks %d times, %v", len(far.asked), err)
	}
}

// A cluster is shown as disabled that this one did not enable at its broker, but not this one itself.
func TestPassedOver(t *testing.T) {
	c, _ := newCluster(t)
	why, err := c.PassedOver(t.Context(), []string{"milan", "oslo", "paris", "rome"})
	if err != nil || len(why) != 2 || why["oslo"] == nil || api.CodeOf(why["paris"]) != api.CodeInUse {
		t.Fatalf("passed over: %v, %v", why, err)
	}
	if text := why["oslo"].Error(); !strings.HasPrefix(text, "Disabled: ") || !strings.Contains(text, "/api/toggle") {
		t.Errorf("oslo: %s", text)
	}
}

// What fits where leaves out the providers that this cluster would pass over.
func TestFitsWithoutWhatTheAgentRefuses(t *testing.T) {
	c, _ := newCluster(t)
	q := api.DryRun{Fitting: api.Fitting{Fits: 8}}
	q.Request = transporttest.Request("2")
	e, err := c.Preview(t.Context(), &chooses{from: []string{"paris", "far-1", "milan", "oslo"}}, q)
	if err != nil || e.Fits == nil || e.Fits.Qualified != 2 || e.Fits.Clusters[0].Cluster != "milan" ||
		e.Fits.Clusters[1].Cluster != "oslo" {
		t.Errorf("it fits %+v, %v", e.Fits, err)
	}
}

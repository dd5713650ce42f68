package match_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts/amountstest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/test/raced"
)

// However the market changes, an engine that remembers what it looked at finds what one that looks
// at everything finds, and a search for the first few finds the first few.
func TestCatalogFindsWhatLookingAtEverythingFinds(t *testing.T) {
	raced.Skip(t)
	rapid.Check(t, func(t *rapid.T) {
		s, now := market.New(""), market.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
		for i := range 300 { // more than a chunk
			putSeller(t, s, i, 1, now)
		}
		engine, view := match.New(), (*market.View)(nil)
		for step := range rapid.IntRange(1, 4).Draw(t, "steps") {
			view = s.Publish(view)
			for slot := range view.Len() { // it would take a day to become known
				view.At(slot).Uptime = []int64{market.UnknownUptime, 0, 950_000, 1_000_000}[slot%4]
			}
			for range 4 {
				q := drawQuery(t)
				to := &api.Card{Cluster: seller(rapid.IntRange(0, 310).Draw(t, "asker"))}
				want := lookAtEverything(view, to, q, now)
				for _, most := range []int{1, rapid.IntRange(2, 40).Draw(t, "most"), 10_000} {
					var got []string
					for _, f := range engine.Catalog(view, to, q, now, most) {
						got = append(got, describe(f.Offered, f.Plans))
					}
					if !slices.Equal(got, want[:min(most, len(want))]) {
						t.Fatalf("%+v, the first %d, at step %d:\n%s\nwant\n%s",
							q, most, step, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
			for range 5 {
				putSeller(t, s, rapid.IntRange(0, 299).Draw(t, "changes"), int64(step)+2, now)
			}
		}
	})
}

func seller(i int) string { return fmt.Sprintf("seller-%03d", i*7%311) }

// putSeller makes a seller what it is in a version: a card, up to three offers, an advertisement.
func putSeller(t *rapid.T, s *market.State, i int, version int64, now market.Time) {
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
	cluster := seller(i)
	if version == 1 || pick(3) == 0 {
		card := &api.Card{Cluster: cluster, Properties: api.Properties{Region: []string{"eu", "us", ""}[pick(3)],
			GPUs: [][]string{nil, {"NVIDIA-A100"}, {"NVIDIA-L4", "a100"}}[pick(3)]}}
		s.Apply(market.Event{Time: now, Member: &market.Member{Cluster: cluster,
			State: []api.MemberState{api.MemberActive, api.MemberActive, api.MemberSuspended}[pick(3)], Card: card}})
	}
	for n := range pick(4) {
		spec := api.OfferSpec{Type: []string{"compute", "gpu"}[pick(2)],
			Description: []string{"Fast nodes", "slow nodes", "né"}[pick(3)]}
		if pick(4) == 0 {
			spec.VisibleTo.Clusters = []string{seller(pick(300))}
		}
		if pick(6) == 0 {
			until := metav1.NewTime(now.Go().Add(time.Duration(pick(3)-1) * time.Hour))
			spec.ValidUntil = &until
		}
		for p := range 1 + pick(2) {
			plan := api.Plan{Name: fmt.Sprintf("plan-%d", p), Resources: []api.Resources{resources("cpu", "1"), resources("cpu",
				"1", "nvidia.com/gpu", "1")}[pick(2)], Quantity: int64(pick(3)), Units: &api.Units{Min: 1 + int64(pick(2)), Max: 9}}
			if plan.Quantity > 0 {
				plan.Quantity += plan.Units.Min
			}
			if pick(5) > 0 {
				plan.Price = &api.Price{Amount: fmt.Sprint(1 + pick(9)), Currency: []string{"EUR", "EUR", "USD"}[pick(3)],
					Period: []api.Period{api.PeriodHour, api.PeriodHour, api.PeriodMonth}[pick(3)]}
			}
			if pick(3) == 0 {
				plan.MaxDuration = &metav1.Duration{Duration: 10 * time.Hour}
			}
			spec.Plans = append(spec.Plans, plan)
		}
		payload, err := json.Marshal(api.SignedOffer{Protocol: api.Protocol,
			Seller: cluster, Name: fmt.Sprintf("offer-%d", n), Version: version, Offer: spec})
		if err != nil {
			t.Fatal(err)
		}
		o, err := market.ReadOffer("e30." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln")
		if err != nil {
			t.Fatal(err)
		}
		o.Digest, o.OnSale = fmt.Sprintf("%s/%d/%d/%d", cluster, n, version, pick(1<<30)), true
		if old := s.OnSale(cluster, o.Signed.Name); old != nil {
			s.Apply(market.Event{Time: now, Forget: &market.Forget{Offers: []string{old.Digest}}})
		}
		s.Apply(market.Event{Time: now, Offer: o})
	}
	has := resources("cpu", fmt.Sprint(pick(3)), "nvidia.com/gpu", fmt.Sprint(pick(3)))
	terms := &api.Terms{}
	if pick(4) == 0 {
		terms.VisibleTo.Clusters = []string{seller(pick(300))}
	}
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: version, Number: 1}, Terms: []*api.Terms{terms, terms, terms, nil}[pick(4)],
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: has, Allocatable: has, Shared: has}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Observe(cluster, m, now, pick(4) > 0) // of one version twice the first counts
}

func drawQuery(t *rapid.T) api.CatalogQuery {
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "of") }
	return api.CatalogQuery{
		Text: one("", "", "FAST", "seller-1", "né", "o", "offer-1\ngpu"), Seller: one("",
			"", "", seller(3)), Type: one("", "gpu"), Region: one("", "", "eu"),
		GPU: one("", "", "A100"), SellerGPU: one("", "", "", "L4"), Currency: one("", "EUR", "USD"), Available: rapid.Bool().Draw(t, "available"),
		For: time.Duration(rapid.IntRange(0, 1).Draw(t, "for")) * 24 * time.Hour, Uptime: rapid.SampledFrom([]int64{0,
			0, 900_000}).Draw(t, "uptime"),
		Sort: rapid.SampledFrom([]api.CatalogOrder{api.ByName, api.ByPrice, api.ByRegion, api.ByUptime}).Draw(t, "sort"),
	}
}

// lookAtEverything searches as plainly as can be.
func lookAtEverything(v *market.View, to *api.Card, q api.CatalogQuery, now market.Time) []string {
	type found struct {
		match.Offered
		plans []match.FoundPlan
	}
	var all []found
	rates := money.RatesFor(now.Go(), cmp.Or(q.For, time.Hour))
	for slot := range v.Len() {
		l := v.At(slot)
		p := l.Card().Properties
		gpu := func(name string) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(q.GPU)) }
		if q.SellerGPU != "" && !slices.Contains(p.GPUs, "NVIDIA-L4") {
			continue
		}
		if q.Seller != "" && l.Cluster != q.Seller || q.Region != "" && p.Region != q.Region || q.GPU != "" &&
			!slices.ContainsFunc(p.GPUs, gpu) || q.Available && !l.Fresh(now) || l.Uptime < q.Uptime && q.Uptime > 0 {
			continue
		}
		for _, o := range l.Offers {
			f := found{Offered: match.Offered{Listing: l, Offer: o}}
			if !f.Shown(to, now) || q.Type != "" && o.Signed.Offer.Type != q.Type ||
				!strings.Contains(o.Text, strings.ToLower(q.Text)) {
				continue
			}
			for i := range o.Plans {
				p := &o.Plans[i]
				left := l.Remaining(o, p)
				if _, gpu := p.Resources["nvidia.com/gpu"]; q.GPU != "" && !gpu {
					continue
				}
				if q.Currency != "" && !p.Price.Free() && p.Price.Currency != q.Currency ||
					q.For > 0 && p.Lasts(q.For) != nil || q.Available && left < p.Min {
					continue
				}
				f.plans = append(f.plans, match.FoundPlan{Plan: p, Remaining: left, Nanos: p.Price.Nanos(p.Min, rates)})
			}
			if len(f.plans) > 0 {
				all = append(all, f)
			}
		}
	}
	price := func(a, b match.FoundPlan) int {
		return cmp.Or(strings.Compare(a.Price.Currency, b.Price.Currency), cmp.Compare(a.Nanos, b.Nanos))
	}
	slices.SortFunc(all, func(a, b found) int {
		by := 0
		switch q.Sort {
		case api.ByPrice:
			by = price(slices.MinFunc(a.plans, price), slices.MinFunc(b.plans, price))
		case api.ByRegion:
			by = strings.Compare(a.Card().Properties.Region, b.Card().Properties.Region)
		case api.ByUptime:
			by = cmp.Compare(b.Uptime, a.Uptime)
		}
		return cmp.Or(by, strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Signed.Name, b.Signed.Name))
	})
	var out []string
	for _, f := range all {
		out = append(out, describe(f.Offered, f.plans))
	}
	return out
}

func describe(o match.Offered, plans []match.FoundPlan) string {
	out := o.Digest
	for _, p := range plans {
		out += fmt.Sprintf(" %s: %d left, %d", p.Name, p.Remaining, p.Nanos)
	}
	return out
}

var resources = amountstest.Resources

// A search for a GPU finds plans with the devices of any vendor, and no others.
func TestPlansWithAGPU(t *testing.T) {
	for name, want := range map[string]bool{
		"nvidia.com/gpu": true, "amd.com/gpu": true, "nvidia.com/mig-1g.10gb": true, "gpu.intel.com/i915": true,
		"example.com/npu": true, "habana.ai/gaudi": true, "google.com/tpu": true,
		"cpu": false, "memory": false, "storage": false, "hugepages-2Mi": false,
		"fast.storageclass.storage.k8s.io/requests.storage": false, "kubernetes.io/batch-cpu": false,
	} {
		w := match.WantedBy(api.CatalogQuery{GPU: "x1"}, time.Time{})
		plan := api.Plan{Resources: api.Resources{corev1.ResourceName(name): resource.MustParse("1")}}
		if got := w.Has(&market.Plan{Plan: &plan}); got != want {
			t.Errorf("a plan with %s: %v, want %v", name, got, want)
		}
	}
}

package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/decoded/decodedtest"
	"github.com/bourse-dev/bourse/test/raced"
)

// filled is JSON of so many bytes, with one value as often as it fits in between.
func filled(before, value, after string, size int) string {
	n := (size - len(before) - len(after)) / (len(value) + 1)
	return before + strings.Repeat(value+",", n-1) + value + after
}

// No answer takes more memory than an agent has.
func TestAnswersTakeLittleMemory(t *testing.T) {
	raced.Skip(t)
	ctx := context.Background()
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	c := client.New(s.URL, nil).WithLists(48 << 20) // as an agent's
	catalog := func() error { _, err := c.Catalog(ctx, api.CatalogQuery{}); return err }
	reservation := func() error { _, err := c.Reservation(ctx, "a"); return err }
	watch := func() error {
		// it ends
		if err := c.Watch(ctx, "", func(api.WatchEvent) error { return nil }); api.CodeOf(err) != api.CodeUnavailable {
			return err
		}
		return nil
	}
	const MiB = 1 << 20
	for _, kind := range []struct {
		name, before, after string
		size                int
		values              []string
		call                func() error
		most                int64 // MiB
	}{
		{"an item of a list", `{"items":[{"id":"a","payload":{"offer":{"plans":[`, `]}}}]}`, 16 * MiB, []string{`{}`, `{"resources":{"":"1"}}`}, catalog, 64},
		{"a list", `{"items":[`, `]}`, 48 * MiB, []string{`{}`, `{"payload":{"offer":{"plans":[{},{},{},{},{}]}}}`, `{"id":"` + strings.Repeat("a", 1000) + `"}`}, catalog, 100},
		{"a large item", `{"items":[{"id":"`, `"}]}`, 40 * MiB, []string{strings.Repeat("a", 1000)}, catalog, 32},
		{"what nobody asked for", `{"others":[`, `],"items":[]}`, 40 * MiB, []string{`{}`}, catalog, 32},
		{"a reservation", `{"id":"a","payload":{"tried":[`, `]}}`, 15 * MiB, []string{`{}`}, reservation, 32},
		{"an evaluation", `{"clusters":[`, `]}`, 15 * MiB, []string{`{}`},
			func() error { _, err := c.Evaluate(ctx, api.Request{}); return err }, 48},
		{"an event", `{"type":"SELLER","seller":{"cluster":"a","offers":[`, "]}}\n", 4*MiB - 1, []string{`{}`, `{"payload":{"offer":{"plans":[{}]}}}`}, watch, 32},
		{"an event of the most bytes", `{"type":"SELLER","seller":{"cluster":"a","offers":[`, "]}}\n", 2*MiB - 1, []string{`{}`}, watch, 32},
	} {
		for _, value := range kind.values {
			t.Run(fmt.Sprintf("%s of %.30s", kind.name, value), func(t *testing.T) {
				body = filled(kind.before, value, kind.after, kind.size)
				var err error
				took := decodedtest.HeapDuring(func() { err = kind.call() })
				t.Logf("%d MiB: %d MiB of heap, %v", len(body)/MiB, took, err)
				if took > kind.most {
					t.Errorf("%d bytes take %d MiB of heap, want at most %d", len(body), took, kind.most)
				}
				if err != nil && api.CodeOf(err) != api.CodeTooLarge {
					t.Error(err)
				}
			})
		}
	}
}

// The largest of what honest servers answer is read.
func TestLargestHonestAnswers(t *testing.T) {
	raced.Skip(t)
	ctx := context.Background()
	document, text := strings.Repeat("x", 96<<10), strings.Repeat("\x01", 2000)
	resources := api.Resources{}
	for i := range 64 {
		resources[corev1.ResourceName(fmt.Sprintf("%s.example/%s-%d",
			strings.Repeat("d", 60), strings.Repeat("n", 50), i))] = resource.MustParse("123456789")
	}
	r := api.Envelope[api.Reservation]{ID: "a", Payload: api.Reservation{
		State: api.Reserved, Resources: resources, Message: text, ConsumerCard: document, ProviderCard: document, Offer: document,
		Assignment: document, Acceptance: document, End: document, Reclaim: document, Change: &api.Change{Resources: resources, Assignment: document},
		Request: &api.Request{Resources: resources, Where: text, Properties: map[string]string{}},
	}}
	for i := range 100 {
		r.Payload.Tried = append(r.Payload.Tried, api.Tried{Provider: fmt.Sprint("p", i), Message: text[:200]})
	}
	answer := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + "\n"
	}
	if _, err := answers(t, 200, answer(r)).Reservation(ctx, "a"); err != nil {
		t.Errorf("a reservation: %v", err)
	}
	stall := api.SellerOffers{Cluster: "a"}
	for i := range 256 {
		l := api.Envelope[api.Listing]{ID: fmt.Sprint("a/", i),
			Payload: api.Listing{Seller: "a", Name: fmt.Sprint(i), Document: document[:350]}}
		l.Payload.Offer.Plans = []api.Plan{{Name: "one", Resources: api.Resources{"cpu": resource.MustParse("1"),
			"memory": resource.MustParse("1Gi")}, Price: &api.Price{Amount: "1"}}}
		l.Payload.Plans = map[string]api.PlanListing{"one": {Remaining: 8, Cost: "2.00"}}
		stall.Offers = append(stall.Offers, l)
	}
	one := api.SellerOffers{Cluster: "a",
		Offers: []api.Envelope[api.Listing]{{ID: "a/1", Payload: api.Listing{Document: document}}}}
	for i := range api.MaxPlans {
		one.Offers[0].Payload.Offer.Plans = append(one.Offers[0].Payload.Offer.Plans,
			api.Plan{Name: fmt.Sprint(i), Resources: resources})
	}
	events := 0
	for _, e := range []api.WatchEvent{{Type: api.WatchReservation, Object: &r},
		{Type: api.WatchSeller, Seller: &stall}, {Type: api.WatchSeller, Seller: &one}} {
		err := answers(t, 200, answer(e)).Watch(ctx, "", func(api.WatchEvent) error { events++; return nil })
		if api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%s: %v", e.Type, err)
		}
	}
	if events != 3 {
		t.Errorf("%d events are read, want 3", events)
	}
	// 10,000 reservations, as one agent may have.
	r.Payload.Change, r.Payload.Tried, r.Payload.Request.Where, r.Payload.Message, r.Payload.Request.Resources = nil, nil, "", "", nil
	r.Payload.Resources = api.Resources{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	for _, document := range []*string{&r.Payload.ConsumerCard, &r.Payload.ProviderCard,
		&r.Payload.Offer, &r.Payload.Assignment, &r.Payload.Acceptance, &r.Payload.End, &r.Payload.Reclaim} {
		*document = ""
	}
	r.Payload.ProviderCard, r.Payload.Assignment, r.Payload.Acceptance = strings.Repeat("x",
		1000), strings.Repeat("x", 800), strings.Repeat("x", 600)
	item := answer(r)
	all, err := answers(t, 200, `{"items":[`+strings.Repeat(item+",",
		9999)+item+`]}`).WithLists(48 << 20).Reservations(ctx)
	if err != nil || len(all) != 10_000 {
		t.Errorf("%d reservations of %d bytes: %v", len(all), len(item), err)
	}
}

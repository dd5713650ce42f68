package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func revision(t *testing.T, f *servertest.Federation) (n uint64) {
	t.Helper()
	if err := f.Exchange.Read(context.Background(), func(s *market.State) { n = s.Revision }); err != nil {
		t.Fatal(err)
	}
	return n
}

// Pages of any size give every item once, sorted, and what is made meanwhile disturbs nothing.
func TestPages(t *testing.T) {
	ctx := context.Background()
	w := &fixture{Federation: servertest.Start(t, servertest.Options{})}
	rome := w.Join("rome")
	w.Join("milan").Advertise("100")
	const all = 7
	for i := range all {
		if _, err := rome.Reserve(ctx, fmt.Sprint(i), transporttest.Request("1")); err != nil {
			t.Fatal(err)
		}
	}
	for limit := 1; limit <= all+1; limit++ {
		var ids []string
		for next := ""; ; {
			path := fmt.Sprintf("/reservations?limit=%d&continue=%s", limit, next)
			status, _, body := w.call(t, call{by: rome.HTTP, method: "GET", path: path})
			var page api.List[api.Reservation]
			if err := json.Unmarshal(body, &page); status != http.StatusOK || err != nil || len(page.Items) > limit {
				t.Fatalf("limit %d: %d items with %d, %v", limit, len(page.Items), status, err)
			}
			for _, item := range page.Items {
				ids = append(ids, item.ID)
			}
			if next = page.Continue; next == "" {
				break
			}
		}
		if len(ids) != all || !slices.IsSorted(ids) || len(slices.Compact(ids)) != all {
			t.Errorf("limit %d gives %v", limit, ids)
		}
	}
	status, _, body := w.call(t, call{by: rome.HTTP, method: "GET", path: "/reservations?role=provider"})
	if status != http.StatusOK || string(body) != `{"items":[]}` {
		t.Errorf("an empty list is %d %s", status, body)
	}
}

// A list is of what concerns the caller, as it asked.
func TestListsAreOfTheCallersOwn(t *testing.T) {
	w := newFixture(t)
	for name, c := range map[string]struct {
		by    *http.Client
		query string
		want  []string
	}{
		"the consumer's":              {w.rome.HTTP, "", []string{w.unsigned.ID, w.signed.ID, w.bound.ID}},
		"the provider's":              {w.milan.HTTP, "", []string{w.signed.ID, w.bound.ID}},
		"the provider's as consumer":  {w.milan.HTTP, "?role=consumer", nil},
		"the consumer's that is held": {w.rome.HTTP, "?state=Held&role=consumer", []string{w.unsigned.ID, w.signed.ID}},
		"a neighbour's":               {w.oslo.HTTP, "", nil},
		"the operator's":              {w.OperatorHTTP, "?state=Reserved", []string{w.bound.ID}},
	} {
		_, _, body := w.call(t, call{by: c.by, method: "GET", path: "/reservations" + c.query})
		var list api.List[api.Reservation]
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, item := range list.Items {
			got = append(got, item.ID)
		}
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

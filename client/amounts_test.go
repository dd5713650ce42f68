package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// A server that lies costs no caller more than an answer of its size: whatever amount it names, the
// call ends at once, with an error that says which field is wrong.
func TestEndlessAmounts(t *testing.T) {
	ctx := context.Background()
	amounts := []string{`"1e-999999999"`, `1e-999999999`, `2E6000000000`, `"1\u0065-999999999"`, `"` + strings.Repeat("9", 1000) + `"`}
	for name, c := range map[string]struct {
		body string // with %s for an amount
		call func(*client.Client) error
	}{
		"a cluster": {`{"payload":{"pools":{"a":{"capacity":{"cpu":%s}}}}}`,
			func(c *client.Client) error { _, err := c.Cluster(ctx, "a"); return err }},
		"clusters": {`{"items":[{"payload":{"pools":{"a":{"shapes":[{"free":{"cpu":%s}}]}}}}]}`,
			func(c *client.Client) error { _, err := c.Clusters(ctx); return err }},
		"the catalog": {`{"items":[{"payload":{"offer":{"plans":[{"resources":{"cpu":%s}}]}}}]}`,
			func(c *client.Client) error { _, err := c.Catalog(ctx, api.CatalogQuery{}); return err }},
		"a reservation": {`{"payload":{"request":{"resources":{"cpu":%s}}}}`,
			func(c *client.Client) error { _, err := c.Reservation(ctx, "a"); return err }},
		"an evaluation": {`{"fits":{"clusters":[{"resources":{"cpu":%s}}]}}`,
			func(c *client.Client) error { _, err := c.Evaluate(ctx, api.Request{}); return err }},
		"a watch": {`{"type":"RESERVATION","object":{"payload":{"request":{"resources":{"cpu":%s}}}}}` + "\n",
			func(c *client.Client) error {
				return c.Watch(ctx, "", func(api.WatchEvent) error { t.Error("the event is handled"); return nil })
			}},
		"a watched seller": {`{"type":"SELLER","seller":{"offers":[{"payload":{"offer":{"plans":[{"resources":{"cpu":%s}}]}}}]}}` + "\n",
			func(c *client.Client) error {
				return c.WatchCatalog(ctx, "", "all", func(api.WatchEvent) error { t.Error("the event is handled"); return nil })
			}},
	} {
		for _, amount := range amounts {
			body := fmt.Sprintf(c.body, amount)
			slow := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("%s takes more than a minute: %s", name, body)) })
			err := c.call(answers(t, 200, body))
			slow.Stop()
			if api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "cpu") {
				t.Errorf("%s with %.40s: %v", name, amount, err)
			}
		}
	}
}

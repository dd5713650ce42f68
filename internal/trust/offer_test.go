package trust_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/trust"
)

const web = `{"protocol":1,"seller":"milan","name":"web","version":1,"offer":{"type":"compute","labels":{"a":"b"},"plans":[{"name":"small","resources":{"cpu":"2"},"price":{"amount":"0.10","currency":"EUR","period":"hour"}}]}}`

func TestOffer(t *testing.T) {
	key, other := newKey(t), newKey(t)
	document := sign(t, key, web)
	o, err := trust.Offer(document, other.Public(), key.Public())
	if err != nil || o.Key() != "milan/web" || o.Digest != clusterkey.Digest(document).String() ||
		o.Document != document || o.OnSale || len(o.Plans) != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	for _, text := range []string{"milan", "web", "compute", "a=b"} {
		if !strings.Contains(o.Text, text) {
			t.Errorf("a search does not find %q in %q", text, o.Text)
		}
	}
	if _, err := trust.Offer(document, other.Public()); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("by another: %v", err)
	}
	if _, err := trust.Offer(document); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("by nobody that is known: %v", err)
	}
}

// Any signed offer is one that the market can use, or is refused with a clear error. Nothing panics.
func FuzzOffer(f *testing.F) {
	for _, payload := range []string{web, `{}`, `{"offer":{"plans":[{}]}}`, `{"protocol":1,"seller":"milan","name":"web","version":1,"offer":{"plans":[{"name":"a","resources":{"cpu":"1e18"},"units":{"min":1,"max":1000000}}]}}`} {
		f.Add(payload)
	}
	key := newKey(f)
	f.Fuzz(func(t *testing.T, payload string) {
		var any map[string]any
		if json.Unmarshal([]byte(payload), &any) != nil {
			return
		}
		document, err := key.Sign(api.DocumentOffer, any)
		if err != nil {
			return
		}
		o, err := trust.Offer(document, key.Public())
		if code := api.CodeOf(err); err != nil {
			if code != api.CodeInvalid && code != api.CodeBadSignature {
				t.Errorf("no clear error: %v", err)
			}
			return
		}
		for i := range o.Plans {
			p := &o.Plans[i]
			if size, err := p.Of(p.Min); err == nil && len(size) == 0 || p.Max < p.Min || p.Step < 1 {
				t.Errorf("%+v", p)
			}
		}
	})
}

func newKey(t testing.TB) *clusterkey.Key {
	t.Helper()
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, key *clusterkey.Key, payload string) string {
	t.Helper()
	var any map[string]any
	if err := json.Unmarshal([]byte(payload), &any); err != nil {
		t.Fatal(err)
	}
	document, err := key.Sign(api.DocumentOffer, any)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

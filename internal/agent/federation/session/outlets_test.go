package session

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Without a broker nothing is shown anywhere, which is no failure of a broker: an offer waits for none.
func TestShownNowhere(t *testing.T) {
	_, err := Outlets{Sessions: &Sessions{}}.Shown(t.Context(), api.CatalogQuery{})
	if api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the error is %v", err)
	}
}

// selling is a broker that takes offers. One that is silent answers no call within the time of the client.
type selling struct {
	transporttest.Broker
	mu     sync.Mutex
	silent bool
	offers []string
}

// fails fails a call of a silent broker when the time of the client is over.
func (b *selling) fails() error {
	b.mu.Lock()
	silent := b.silent
	b.mu.Unlock()
	if !silent {
		return nil
	}
	time.Sleep(30 * time.Second)
	return transporttest.Away
}

func (b *selling) Publish(_ context.Context, name, _ string) error {
	if err := b.fails(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offers = append(b.offers, name)
	return nil
}

func (b *selling) Catalog(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	if err := b.fails(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return make([]api.Envelope[api.Listing], len(b.offers)), nil
}

// A broker that accepts connections and never answers holds up no offer elsewhere, nor what this cluster sells
// directly. Once it answers, it gets the offers, too.
func TestASilentBrokerHoldsUpNoOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const offers = 20
		silent, own := &selling{silent: true}, &selling{}
		open := &Sessions{}
		open.Add(New(Options{Broker: silent, Lends: true}))
		open.Add(New(Options{Via: "milan", Broker: own, Lends: true}))
		outlets, begin := Outlets{Sessions: open, ShownAt: func(string) bool { return true }}, time.Now()
		for n := range offers {
			if err := outlets.Publish(t.Context(), fmt.Sprint("offer-", n), "signed"); api.CodeOf(err) != api.CodeUnavailable {
				t.Errorf("offer %d: %v", n, err)
			}
		}
		if found, err := outlets.Catalog(t.Context(), api.CatalogQuery{}); len(found) != offers || err == nil {
			t.Errorf("%d offers are listed, want %d: %v", len(found), offers, err)
		}
		if took := time.Since(begin); len(own.offers) != offers || took > 10*time.Second {
			t.Errorf("after %s the connector has %d of %d offers", took, len(own.offers), offers)
		}
		silent.mu.Lock()
		silent.silent = false
		silent.mu.Unlock()
		time.Sleep(time.Minute)
		if err := outlets.Publish(t.Context(), "offer-0", "signed"); err != nil || len(silent.offers) != 1 {
			t.Errorf("once it answers, it has %q: %v", silent.offers, err)
		}
	})
}

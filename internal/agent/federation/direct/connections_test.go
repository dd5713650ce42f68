package direct

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// sockets are the connections that a connector has: how many were opened, and which are open.
type sockets struct {
	mu     sync.Mutex
	opened int
	open   map[net.Conn]bool
}

func (s *sockets) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.opened++
		s.open[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.open, c)
	}
}

func (s *sockets) count() (opened, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, len(s.open)
}

// listen starts a connector of a cluster that answers each read with a list, and takes any card.
func listen(t *testing.T, of *transporttest.Party, caller identity.Fingerprint, list string) (url string, s *sockets) {
	t.Helper()
	config, err := of.Key.ServerTLS(of.ID, func(string) identity.Fingerprint { return caller })
	if err != nil {
		t.Fatal(err)
	}
	s = &sockets{open: map[net.Conn]bool{}}
	connector := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(list))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	connector.Config.ConnState = s.note
	connector.TLS = config
	connector.Listener = tls.NewListener(connector.Listener, config)
	connector.Start()
	t.Cleanup(connector.Close)
	return "https://" + connector.Listener.Addr().String(), s
}

// However often the lists of a connector are read, the agent has few connections to it. It has none once the
// Ledger does not know the connector.
func TestConnectionsToAConnector(t *testing.T) {
	b := newBuyer(t)
	bergen := transporttest.NewParty(t, "bergen")
	at, sockets := listen(t, bergen, b.Key.Public().Fingerprint(), `{"items":[]}`)
	meet := func(who *transporttest.Party, connector string) {
		t.Helper()
		card := who.Card(api.Properties{Connector: connector})
		if _, _, err := (trust.Demand{}).Meet(t.Context(), b.Ledger, card, who.ID); err != nil {
			t.Fatal(err)
		}
	}
	meet(bergen, at)
	rome := transporttest.NewParty(t, "rome")
	rome.Key = b.Key
	meet(rome, "")
	for range 20 {
		seller, err := b.call(t.Context(), "bergen", maxList)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seller.Catalog(t.Context(), api.CatalogQuery{}); err != nil {
			t.Fatal(err)
		}
	}
	if opened, _ := sockets.count(); opened != 1 {
		t.Errorf("20 calls one after the other opened %d connections", opened)
	}
	var calls sync.WaitGroup
	for range 4 * maxConnections {
		calls.Go(func() { b.Catalog(t.Context(), api.CatalogQuery{Seller: "bergen"}, false) })
	}
	calls.Wait()
	if _, open := sockets.count(); open > maxConnections {
		t.Errorf("%d calls at the same time left %d connections open", 4*maxConnections, open)
	}
	meet(bergen, "")
	b.look(t.Context())
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, open := sockets.count()
		if open == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the connector is gone, and %d connections to it are open", open)
		}
	}
}

// What a seller answers to proposals is read up to a bound.
func TestALongListOfProposals(t *testing.T) {
	for size, read := range map[int]bool{maxAnswers / 2: true, maxAnswers: false} {
		b := newBuyer(t)
		bergen := transporttest.NewParty(t, "bergen")
		at, _ := listen(t, bergen, b.Key.Public().Fingerprint(), `{"items":[{"id":"p-1","payload":{"document":"`+
			strings.Repeat("a", size)+`"}}]}`)
		rome := transporttest.NewParty(t, "rome")
		rome.Key = b.Key
		_, _, err := (trust.Demand{}).Meet(t.Context(), b.Ledger, bergen.Card(api.Properties{Connector: at}), "bergen")
		if err == nil {
			_, _, err = (trust.Demand{}).Meet(t.Context(), b.Ledger, rome.Card(api.Properties{}), "rome")
		}
		if err == nil {
			_, err = b.Ledger.Do(t.Context(), market.PutCard{Signed: "signed", Card: api.Card{Cluster: "rome", Number: 1,
				Key: b.Key.Public().String()}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if all := b.Proposals(t.Context(), func(seller string) bool { return seller == "bergen" }); (len(all) == 1) != read {
			t.Errorf("of %d bytes it reads %d proposals", size, len(all))
		}
	}
}

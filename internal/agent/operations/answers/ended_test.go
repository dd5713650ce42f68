package answers

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A reservation that was made at a seller's connector is shown after that is closed, from the Ledger. One that is still
// shown there is not shown twice.
func TestAnEndedDirectPurchase(t *testing.T) {
	ledger, open := exchangetest.Open(t, nil, exchange.Options{Self: "rome"}), &session.Sessions{}
	for id, via := range map[string]string{"r-direct": "milan", "r-brokered": "", "r-shown": "milan"} {
		r := &market.Reservation{ID: id, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Via: via,
			State: api.Released, Reason: api.ReasonRevokedByProvider, Sale: &api.Sale{Plan: "small", Units: 1},
			Object: &market.Object{Namespace: "team", Name: "web", UID: "u"}}
		if _, err := ledger.Do(t.Context(), market.Note{Reservation: r}); err != nil {
			t.Fatal(err)
		}
	}
	empty, shown := &transporttest.Broker{}, []transport.Reservation{{ID: "r-shown"}}
	open.Add(session.New(session.Options{Cluster: "rome", Broker: lists{empty, shown}}))
	b := Brokers{Clock: clock.RealClock{},
		Relay: session.Relay{Broker: empty, Sessions: open, Ledger: ledger}}
	all, err := b.Reservations(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "r-shown" || all[1].ID != "r-direct" ||
		all[1].Payload.Reason != api.ReasonRevokedByProvider || all[1].Payload.Object != "team/web" {
		t.Errorf("all: %+v, %v", all, err)
	}
	if shown, err := b.Reservation(t.Context(), "r-direct"); err != nil || shown.Payload.State != api.Released {
		t.Errorf("one: %+v, %v", shown, err)
	}
	if shown, err := b.Reservation(t.Context(), "r-brokered"); err == nil {
		t.Errorf("what the broker does not show: %+v", shown)
	}
}

// A Ledger whose API server stands still holds up no user for long, who learns that.
func TestALedgerThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, open := exchangetest.Open(t, nil, exchange.Options{Self: "rome"}), &session.Sessions{}
		empty := &transporttest.Broker{}
		open.Add(session.New(session.Options{Cluster: "rome", Broker: lists{Broker: empty}}))
		b := Brokers{Clock: clock.RealClock{}, Relay: session.Relay{Broker: empty, Sessions: open, Ledger: ledger}}
		stands := make(chan struct{})
		defer close(stands)
		go func() { _ = ledger.Read(context.Background(), func(*market.State) { <-stands }) }()
		synctest.Wait()
		for of, call := range map[string]func() error{
			"reservations": func() error { _, err := b.Reservations(t.Context()); return err },
		} {
			began, err := time.Now(), call()
			if took := time.Since(began); took > 10*time.Second || api.CodeOf(err) != api.CodeUnavailable ||
				!strings.Contains(err.Error(), "Ledger") {
				t.Errorf("%s: after %s: %v", of, took, err)
			}
		}
	})
}

// lists is a broker that shows some reservations.
type lists struct {
	*transporttest.Broker
	shown []transport.Reservation
}

func (l lists) Reservations(context.Context) ([]transport.Reservation, error) { return l.shown, nil }

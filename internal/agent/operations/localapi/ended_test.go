package localapi

import (
	"context"
	"testing"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A reservation that was made at a seller's connector is shown after that is closed, from the Ledger.
func TestAnEndedDirectPurchase(t *testing.T) {
	ledger, open := exchangetest.Open(t, nil, exchange.Options{Self: "rome"}), &session.Sessions{}
	for id, via := range map[string]string{"r-direct": "milan", "r-brokered": ""} {
		r := &market.Reservation{ID: id, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Via: via,
			State: api.Released, Reason: api.ReasonRevokedByProvider, Sale: &api.Sale{Plan: "small", Units: 1}}
		if _, err := ledger.Do(t.Context(), market.Note{Reservation: r}); err != nil {
			t.Fatal(err)
		}
	}
	empty := &transporttest.Broker{}
	open.Add(session.New(session.Options{Cluster: "rome", Broker: noReservations{empty}}))
	b := Brokers{Clock: clock.RealClock{},
		Relay: session.Relay{Broker: empty, Sessions: open, Ledger: ledger}}
	all, err := b.Reservations(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != "r-direct" || all[0].Payload.Reason != api.ReasonRevokedByProvider {
		t.Errorf("all: %+v, %v", all, err)
	}
	if one, err := b.Reservation(t.Context(), "r-direct"); err != nil || one.Payload.State != api.Released {
		t.Errorf("one: %+v, %v", one, err)
	}
	if one, err := b.Reservation(t.Context(), "r-brokered"); err == nil {
		t.Errorf("what the broker does not show: %+v", one)
	}
}

// noReservations is a broker that shows none.
type noReservations struct{ *transporttest.Broker }

func (noReservations) Reservations(context.Context) ([]transport.Reservation, error) { return nil, nil }

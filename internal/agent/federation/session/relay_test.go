package session

import (
	"context"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// mute accepts nothing: it answers with its error or, without one, not at all.
type mute struct {
	transport.Broker
	err error
}

func (m mute) SendHandshake(ctx context.Context, _, _ string) error {
	if m.err != nil {
		return m.err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (m mute) Progress(context.Context, string, api.State) (r transport.Reservation, err error) {
	return r, m.err
}

// A message is sent if one session accepts it, whether a broker is away, does not answer, or does not know of
// the peering.
func TestRelayTakesEveryWay(t *testing.T) {
	away, unknown := api.Errorf(api.CodeUnavailable, "away"), api.Errorf(api.CodeNotFound, "unknown")
	for name, c := range map[string]struct {
		ways []transport.Broker
		code api.Code // empty: it is said
	}{
		"the broker alone":           {[]transport.Broker{accepting{}}, ""},
		"both":                       {[]transport.Broker{accepting{}, accepting{}}, ""},
		"the broker is away":         {[]transport.Broker{mute{err: away}, accepting{}}, ""},
		"the broker does not answer": {[]transport.Broker{mute{}, accepting{}}, ""},
		"no connector knows of it":   {[]transport.Broker{accepting{}, mute{err: unknown}}, ""},
		"nobody takes it":            {[]transport.Broker{mute{err: away}, mute{err: unknown}}, api.CodeUnavailable},
		"the broker alone, and away": {[]transport.Broker{mute{err: away}}, api.CodeUnavailable},
	} {
		r := Relay{Sessions: &Sessions{}}
		for _, way := range c.ways {
			r.Sessions.Add(New(Options{Broker: way}))
		}
		if err := r.SendHandshake(t.Context(), "milan", "x"); err == nil && c.code != "" || err != nil && api.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Progress is reported to a session that knows the reservation and accepts it. Where none accepts it, the
// error is that of the first.
func TestRelayTellsWhoKnowsIt(t *testing.T) {
	refused := api.Errorf(api.CodeSuspended, "member rome is Revoked")
	for name, c := range map[string]struct {
		know []transport.Broker
		code api.Code
	}{
		"the broker":                            {[]transport.Broker{accepting{}}, ""},
		"the broker refuses, the connector not": {[]transport.Broker{mute{err: refused}, accepting{}}, ""},
		"the broker refuses, the connector, too": {[]transport.Broker{mute{err: refused},
			mute{err: api.Errorf(api.CodeUnavailable, "away")}}, api.CodeSuspended},
		"nobody knows it": {nil, api.CodeNotFound},
	} {
		r := Relay{Broker: mute{err: api.Errorf(api.CodeNotFound, "unknown")}, Sessions: &Sessions{}}
		for _, one := range c.know {
			session := New(Options{Cluster: "rome", Broker: one, Lends: true})
			session.Record(&transport.Reservation{ID: "r-1", Payload: api.Reservation{Consumer: "rome"}})
			r.Sessions.Add(session)
		}
		if _, err := r.Progress(t.Context(), "r-1", api.Active); err == nil && c.code != "" ||
			err != nil && api.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// accepting accepts every call.
type accepting struct{ transport.Broker }

func (accepting) SendHandshake(context.Context, string, string) error { return nil }

func (accepting) Progress(context.Context, string, api.State) (r transport.Reservation, err error) {
	return r, nil
}

// fitting answers Fit with its number of candidates, and notes that it was asked.
type fitting struct {
	transport.Broker
	candidates int
	asked      *bool
}

func (f fitting) Fit(context.Context, api.EvaluationCreate) (out api.Evaluation, err error) {
	*f.asked = true
	if f.candidates == 0 {
		return out, api.Errorf(api.CodeUnavailable, "away")
	}
	out.Decision.Candidates = f.candidates
	return out, nil
}

// What fits is asked of the broker that is named, and of no other, also if that is away or there is none.
func TestFitAtNeverAsksAnotherBroker(t *testing.T) {
	for name, c := range map[string]struct {
		broker      string
		north       int // the candidates there; 0: it is away
		main, other bool
		code        api.Code
	}{
		"no name":                  {"", 7, true, false, ""},
		"a name":                   {"north", 7, false, true, ""},
		"a name, which is away":    {"north", 0, false, true, api.CodeUnavailable},
		"a name that there is not": {"south", 7, false, false, api.CodeInvalid},
	} {
		var main, other bool
		r := Relay{Sessions: &Sessions{}}
		r.Sessions.Add(New(Options{Broker: fitting{candidates: 3, asked: &main}}))
		r.Sessions.Add(New(Options{Via: ViaBroker("north"), Broker: fitting{candidates: c.north, asked: &other}}))
		found, err := r.FitAt(t.Context(), c.broker, api.EvaluationCreate{})
		answered := found.Decision.Candidates > 0
		if main != c.main || other != c.other || answered != (c.code == "") || !answered && api.CodeOf(err) != c.code {
			t.Errorf("%s: main asked %t, north asked %t: %v", name, main, other, err)
		}
	}
}

// naming records the clusters that it is asked about.
type naming struct {
	transport.Broker
	asked *[]string
}

func (n naming) SendHandshake(_ context.Context, cluster, _ string) error {
	*n.asked = append(*n.asked, cluster)
	return nil
}

func (n naming) Cluster(_ context.Context, id string) (found api.Envelope[api.Cluster], err error) {
	*n.asked = append(*n.asked, id)
	return found, nil
}

func (n naming) Reservation(_ context.Context, id string) (r transport.Reservation, err error) {
	*n.asked = append(*n.asked, id)
	return r, api.Errorf(api.CodeNotFound, "no reservation %s", id)
}

func (n naming) Progress(ctx context.Context, id string, _ api.State) (transport.Reservation, error) {
	return n.Reservation(ctx, id)
}

// A broker learns neither of a customer nor of a reservation at another broker: what this cluster asks or
// sends about them goes to the broker where the customer reserved, also if that is disabled.
func TestACustomerIsNamedWhereItReserved(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	d := transporttest.NewDeal(rome, milan, "r-1", "1", time.Now())
	d.Signed()
	a := rome.Assignment(*d.Shown())
	size, err := amounts.ParseRequest("resources", a.Resources)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Do(t.Context(), market.Admit{Assignment: a, Size: size, Document: d.Shown().Payload.Assignment,
		Acceptance: "signed", Adopt: true, Via: ViaBroker("north")}); err != nil {
		t.Fatal(err)
	}
	var main, north []string
	r := Relay{Broker: naming{asked: &main}, Sessions: &Sessions{}, Ledger: ledger}
	r.Sessions.Add(New(Options{Cluster: "milan", Broker: naming{asked: &main}, Lends: true}))
	r.Sessions.Add(New(Options{Cluster: "milan", Via: ViaBroker("north"), Broker: naming{asked: &north}, Lends: true}))
	calls := func() {
		_ = r.SendHandshake(t.Context(), "rome", "x")
		_, _ = r.Cluster(t.Context(), "rome")
		_, _ = r.Reservation(t.Context(), "r-1")
		_, _ = r.Progress(t.Context(), "r-1", api.Active)
	}
	calls()
	if len(main) > 0 || len(north) < 3 {
		t.Errorf("main is asked about %q, north about %q", main, north)
	}
	r.Sessions.Remove(r.Sessions.BrokerNamed("north"))
	calls()
	if err := r.SendHandshake(t.Context(), "rome", "x"); api.CodeOf(err) != api.CodeUnavailable || len(main) > 0 {
		t.Errorf("without north: %v, and main is asked about %q", err, main)
	}
	if _ = r.SendHandshake(t.Context(), "oslo", "x"); len(main) != 1 {
		t.Errorf("a message to a cluster that the Ledger does not know: main is asked about %q", main)
	}

	own := transporttest.NewDeal(rome, milan, "r-2", "1", time.Now())
	own.Signed()
	if _, err := ledger.Do(t.Context(), market.Admit{Assignment: rome.Assignment(*own.Shown()), Size: size,
		Document: own.Shown().Payload.Assignment, Acceptance: "signed", Adopt: true}); err != nil {
		t.Fatal(err)
	}
	main, north = nil, nil
	disabled := Relay{Broker: naming{asked: &main}, Sessions: &Sessions{}, Ledger: ledger}
	disabled.Sessions.Add(New(Options{Cluster: "milan", Via: ViaBroker("north"), Broker: naming{asked: &north}, Lends: true}))
	if _, _ = disabled.Reservation(t.Context(), "r-2"); len(main) == 0 || len(north) > 0 {
		t.Errorf("about a reservation of main, which is disabled, main is asked %q, north %q", main, north)
	}
}

// A reservation is read at the seller's connector while its broker does not answer.
func TestRelayReadsWhereItIsAnswered(t *testing.T) {
	r := Relay{Broker: &transporttest.Broker{}, Sessions: &Sessions{}}
	connector := &transporttest.Broker{OnReservation: func() (transport.Reservation, error) {
		return transport.Reservation{ID: "r-1"}, nil
	}}
	for _, one := range []transport.Broker{&transporttest.Broker{}, connector} {
		session := New(Options{Cluster: "rome", Broker: one, Lends: true})
		session.Record(&transport.Reservation{ID: "r-1", Payload: api.Reservation{Consumer: "rome"}})
		r.Sessions.Add(session)
	}
	if found, err := r.Reservation(t.Context(), "r-1"); err != nil || found.ID != "r-1" {
		t.Errorf("found %q, %v", found.ID, err)
	}
}

package brokersession

import (
	"context"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// mute accepts nothing: it answers with its error or, without one, not at all.
type mute struct {
	transport.Broker
	err error
}

func (m mute) Say(ctx context.Context, _, _ string) error {
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
		if err := r.Say(t.Context(), "milan", "x"); err == nil && c.code != "" || err != nil && api.CodeOf(err) != c.code {
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

func (accepting) Say(context.Context, string, string) error { return nil }

func (accepting) Progress(context.Context, string, api.State) (r transport.Reservation, err error) {
	return r, nil
}

package server_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// Uptime is shown in parts per million, and not at all of who was seen for less than a day.
func TestUptimeIsShown(t *testing.T) {
	const day = 24 * 3600 * 1000
	j := memorytest.New()
	head, err := j.Load(t.Context(), nil, func(journal.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var events [][]byte
	add := func(e market.Event) {
		data, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, data)
	}
	for _, c := range []string{"rome", "milan"} {
		add(market.Event{Time: 1, Member: &market.Member{Cluster: c, State: api.MemberActive, Key: "k"}})
	}
	add(market.Event{Time: 1, Leases: &market.Leases{Regained: []string{"rome"}}})
	add(market.Event{Time: 1, Leases: &market.Leases{Awake: 3 * day / 2,
		Lost: []string{"rome"}, Regained: []string{"milan"}}})
	add(market.Event{Time: 1, Leases: &market.Leases{Awake: 2 * day}})
	if _, err := j.Append(t.Context(), head, events); err != nil {
		t.Fatal(err)
	}
	f := servertest.Start(t, servertest.Options{Journal: j})
	rome, err := f.Operator.Cluster(t.Context(), "rome")
	if err != nil || rome.Payload.Uptime == nil || *rome.Payload.Uptime != 750_000 {
		t.Errorf("rome: %+v, %v", rome.Payload, err)
	}
	if milan, err := f.Operator.Cluster(t.Context(), "milan"); err != nil || milan.Payload.Uptime != nil {
		t.Errorf("milan: %+v, %v", milan.Payload, err)
	}
}

package session

import (
	"context"
	"encoding/json"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/test/raced"
)

// What a session keeps is bounded: in number, in bytes, and to what concerns this cluster.
func TestASessionIsBounded(t *testing.T) {
	raced.Skip(t)
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	s := New(Options{Via: "oslo", Cluster: "milan"})
	s.Record(transporttest.NewDeal(rome, transporttest.NewParty(t, "bonn"), "not-ours", "1", time.Now()).Shown())
	if s.Shown("not-ours") != nil {
		t.Error("it keeps what is of others")
	}
	one := transporttest.NewDeal(rome, milan, "r", "1", time.Now()).Shown()
	for i := range 3 * maxOfConnector {
		next := *one
		next.ID = "r-" + time.Duration(i).String()
		s.Record(&next)
	}
	if n := len(s.shown); n > maxOfConnector {
		t.Errorf("it keeps %d", n)
	}
	s.beginWatch(true)
	if s.completeWatch(); s.lacks("r-x") != true {
		t.Error("after a whole new beginning it is not known what it lacks")
	}
	for i := range 1000 {
		next := *one
		next.ID, next.Payload.Assignment = "r-"+time.Duration(i).String(), string(make([]byte, 100<<10))
		s.Record(&next)
	}
	if s.bytes > maxOfConnectorBytes {
		t.Errorf("it keeps %d bytes", s.bytes)
	}
	if s.lacks("r-x") {
		t.Error("what it said and was not kept counts as not said")
	}
	known := len(s.shown)
	for id := range s.shown {
		s.Forget(id)
	}
	if known == 0 || s.bytes != 0 {
		t.Errorf("%d bytes of nothing", s.bytes)
	}
}

// What is kept of a connector takes the memory that it may take, also where its JSON is short.
func TestASessionTakesLittleMemory(t *testing.T) {
	raced.Skip(t)
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	s := New(Options{Via: "oslo", Cluster: "milan"})
	wide := &api.Request{Properties: map[string]string{}}
	for i := range 900 {
		wide.Properties[strconv.Itoa(i)] = ""
	}
	one := transporttest.NewDeal(rome, milan, "r", "1", time.Now()).Shown()
	one.Payload.Request = wide
	short, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	before := heap()
	for i := range maxOfConnector {
		next := &transport.Reservation{}
		if err := json.Unmarshal(short, next); err != nil {
			t.Fatal(err)
		}
		next.ID = strconv.Itoa(i)
		s.Record(next)
	}
	if took := (heap() - before) >> 20; took > 16 || len(s.shown) == 0 {
		t.Errorf("%d reservations of %d bytes take %d MiB", len(s.shown), len(short), took)
	}
	s.beginWatch(true)
	for i := range maxOfConnector { // as many honest ones as there may be
		d := transporttest.NewDeal(rome, milan, strconv.Itoa(i), "1", time.Now())
		d.Signed()
		honest := *d.Reserved("")
		if s.Record(&honest); s.Shown(honest.ID) == nil {
			t.Fatalf("only %d honest reservations are kept", i)
		}
	}
}

// adopting is a broker whose watch shows what became of a reservation before the call that adopts it returns.
type adopting struct {
	transporttest.Broker
	meanwhile func()
	answer    transport.Reservation
}

func (b *adopting) Adopt(context.Context, string, api.Agreement) (transport.Reservation, error) {
	b.meanwhile()
	return b.answer, nil
}

// The answer to an adoption does not replace what the watch has shown since.
func TestAnAdoptionThatIsOvertaken(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	d := transporttest.NewDeal(rome, milan, "r", "1", time.Now())
	d.Signed()
	adopted := *d.Reserved("")
	newer := adopted
	newer.Revision = adopted.Revision + 1
	broker := &adopting{answer: adopted}
	for name, meanwhile := range map[string]func(*Session){"newer": func(s *Session) { s.Record(&newer) },
		"nothing": func(*Session) {}} {
		s := New(Options{Via: "milan", Cluster: "rome", Key: rome.Key, Broker: broker})
		s.beginWatch(true)
		s.completeWatch()
		record := &market.Reservation{ID: "r", State: api.Reserved, Consumer: "rome",
			Provider: "milan", Assignment: adopted.Payload.Assignment, Acceptance: adopted.Payload.Acceptance}
		if !s.IsMissing(record) {
			t.Fatalf("%s: the broker does not miss it", name)
		}
		broker.meanwhile = func() { meanwhile(s) }
		if err := s.ShowAgreement(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		want := adopted.Revision
		if name == "newer" {
			want = newer.Revision
		}
		if got := s.Shown("r"); got == nil || got.Revision != want {
			t.Errorf("the watch showed %s: it keeps %+v, want revision %d", name, got, want)
		}
	}
}

package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/test/raced"
)

// However many connectors show as many reservations as they can, in any order, all sessions stay within a bound.
// A connector that shows no more than an equal share is kept whole.
func TestSessionsTogetherAreBounded(t *testing.T) {
	raced.Skip(t)
	const mib = 1 << 20
	document := strings.Repeat("d", mib/64)
	for seed := range uint64(3) {
		r, memory := rand.New(rand.NewPCG(seed, 1)), NewMemory(24*mib)
		all := make([]*Session, 8)
		for i := range all {
			all[i] = New(Options{Via: fmt.Sprint("seller-", i), Cluster: "rome", Memory: memory})
		}
		honest, shown := all[len(all)-1], 0
		most := memory.connectors.All / len(all) / (mib/64 + 2<<10)
		for step := range 1500 {
			s := all[r.IntN(len(all))]
			if s == honest && shown == most {
				continue
			}
			if s != honest && r.IntN(100) == 0 {
				s.beginWatch(true)
			}
			s.Record(&transport.Reservation{ID: fmt.Sprint("r-", step),
				Payload: api.Reservation{Consumer: "rome", Assignment: document}})
			if s == honest {
				shown++
			}
			sum := 0
			for _, session := range all {
				sum += session.Size()
			}
			if sum > memory.connectors.All {
				t.Fatalf("seed %d: %d sessions take %d bytes, want at most %d", seed, len(all), sum, memory.connectors.All)
			}
			if len(honest.shown) != shown || honest.countDropped() != 0 {
				t.Fatalf("seed %d: %d of %d reservations of a connector within its share are kept", seed, len(honest.shown), shown)
			}
		}
		if shown < most {
			t.Errorf("seed %d: it has shown only %d of %d", seed, shown, most)
		}
	}
}

// A session gives way to one that needs its share. A session that was removed takes no memory.
func TestASessionThatGaveWay(t *testing.T) {
	const mib = 1 << 20
	memory := NewMemory(12 * mib) // connectors: 1 MiB
	show := func(via string, parts int) *Session {
		s := New(Options{Via: via, Cluster: "rome", Memory: memory})
		for i := range parts {
			s.Record(&transport.Reservation{ID: fmt.Sprint("r-", i),
				Payload: api.Reservation{Consumer: "rome", Assignment: strings.Repeat("d", mib/8)}})
		}
		return s
	}
	first := show("seller-1", 7)
	if first.countDropped() != 0 {
		t.Fatal("one alone has no room")
	}
	second, open := show("seller-2", 3), &Sessions{}
	if first.countDropped() == 0 || second.countDropped() != 0 || first.Size() > mib/2 {
		t.Errorf("the first keeps %d bytes and dropped %d, the second dropped %d", first.Size(), first.countDropped(),
			second.countDropped())
	}
	open.Add(second)
	open.Remove(second)
	second.Record(&transport.Reservation{ID: "late", Payload: api.Reservation{Consumer: "rome"}})
	if second.Size() != 0 {
		t.Errorf("a removed session keeps %d bytes", second.Size())
	}
}

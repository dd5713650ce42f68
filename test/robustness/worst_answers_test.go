package robustness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The ways in which a liar answers a request for a reservation, one after the other.
const (
	answersWide    = iota // with many amounts
	answersNothing        // takes the call, and stays silent until the caller gives up
	answersForever        // with amounts without end
	answersGroup          // with a long group
	answersRefused        // with a hold on a seller under another key, which the agent refuses, and asks again
	answersError          // with an error of long texts
	answers
)

// fake is what a liar needs for its answers: the parties of its holds, and how often it answered in each way.
type fake struct {
	victim    *transporttest.Party
	impostors []*transporttest.Party // sellers with other keys than those that the agent knows
	asked     atomic.Int64
	given     [answers]atomic.Int64
	refused   atomic.Int64 // holds that the agent refused
}

func newFake(t *testing.T, victim string) *fake {
	f := &fake{victim: transporttest.NewParty(t, victim)}
	for i := range connectors {
		f.impostors = append(f.impostors, transporttest.NewParty(t, sellerName(i)))
	}
	return f
}

// counts returns how often it answered in each way.
func (f *fake) counts() (all [answers]int64) {
	for i := range all {
		all[i] = f.given[i].Load()
	}
	return all
}

// hasGivenAll reports whether it answered in each way, and the agent refused what it is to refuse.
func (f *fake) hasGivenAll() bool {
	all := f.counts()
	return !slices.Contains(all[:], 0) && f.refused.Load() > 0
}

func sellerName(i int) string { return fmt.Sprintf("seller-%d", i) }

// reserve answers a request for a reservation.
func (x *liar) reserve(w http.ResponseWriter, r *http.Request, out *bufio.Writer) {
	var asked api.ReservationCreate
	_ = json.NewDecoder(r.Body).Decode(&asked)
	number := int(x.fake.asked.Add(1))
	way, name := number%answers, fmt.Sprint("a-", number)
	x.fake.given[way].Add(1)
	if way != answersError {
		w.WriteHeader(http.StatusCreated)
	}
	switch way {
	case answersNothing:
		<-r.Context().Done()
	case answersForever:
		_, _ = fmt.Fprintf(out, `{"id":%q,"payload":{"state":"Held","resources":{"cpu":"1"`, name)
		for i := 0; r.Context().Err() == nil; i++ {
			_, _ = fmt.Fprintf(out, `,"%x":"1"`, i)
		}
	case answersGroup:
		_, _ = fmt.Fprintf(out, `{"id":%q,"payload":{"state":"Held","resources":{"cpu":"1"},"group":["p"%s]}}`,
			name, strings.Repeat(`,"p"`, 100_000))
	case answersRefused:
		seller := x.fake.impostors[number/answers%len(x.fake.impostors)]
		held := transporttest.NewDeal(x.fake.victim, seller, name, "1", time.Now()).Shown()
		held.Payload.Resources = asked.Request.Resources
		held.Payload.Until.Time = held.Payload.Created.Add(api.DurationOf(asked.Request.Duration))
		_ = json.NewEncoder(out).Encode(held)
	case answersError:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(out, `{"code":"Unavailable","detail":"%s"}`, strings.Repeat("no ", 300_000))
	default:
		write(out, x.wide, name)
	}
}

// listenInSilence accepts connections, and never answers. It returns its address.
func listenInSilence(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

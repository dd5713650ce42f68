package federation_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A broker that has moved is dealt with where people say that it is now, as the member that this
// cluster is there already; what was bought through it is what it was.
func TestBrokerMoves(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	north, err := f.StartOther("north")
	if err != nil {
		t.Fatal(err)
	}
	f.joins(north, f.rome, f.milan)
	f.until("milan's offer is on sale there", func() bool {
		return len(must(north.Operator.Catalog(t.Context(), api.CatalogQuery{}))(t)) == 1
	})
	bought := f.buysAt(f.rome, "north", "before", 1)
	if bought.State != api.Reserved {
		t.Fatalf("%+v", bought)
	}
	door, used := newDoor(t, strings.TrimPrefix(north.URL, "https://"))
	if _, err := f.rome.People.PutBroker(t.Context(), "north", api.BrokerSpec{URL: "https://" + door}); err != nil {
		t.Fatal(err)
	}
	<-used
	f.until("it is connected there", func() bool {
		for _, b := range must(f.rome.People.Brokers(t.Context()))(t) {
			if b.ID == "north" {
				return b.Payload.Status.URL == "https://"+door && f.brokerState(f.rome, "north") == "Connected"
			}
		}
		return false
	})
	if again := f.buysAt(f.rome, "north", "after", 1); again.State != api.Reserved {
		t.Errorf("bought where it is now: %+v", again)
	}
	if got := f.contractsOf(f.rome)[bought.Reservation].Status.State; got != api.Reserved {
		t.Errorf("what was bought before is %s", got)
	}
}

// newDoor is another address of a server; used is closed with the first who comes by it.
func newDoor(t *testing.T, server string) (address string, used <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	first := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				in.Close()
				continue
			}
			if n == 0 {
				close(first)
			}
			pipe := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				to.Close()
				from.Close()
			}
			go pipe(out, in)
			go pipe(in, out)
		}
	}()
	return l.Addr().String(), first
}

package liqowatch

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

// Many reservations at one provider, whose API server answers late, are one address, and not many.
func TestReachOfOneAddressAtOnce(t *testing.T) {
	slow, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const calls = 3 * dialsAtOnce
	w := testWatch(loopback(), network.GatewayNone)
	card := &api.Card{Cluster: "milan", Properties: api.Properties{APIServer: "https://" + slow.Addr().String()}}
	failed := make([]error, calls)
	var all, begun sync.WaitGroup
	begun.Add(calls)
	for i := range calls {
		all.Go(func() {
			begun.Done()
			failed[i] = w.CheckReach(t.Context(), card, api.Request{})
		})
	}
	begun.Wait()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, dials := w.limits.Get("milan"); dials {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is not dialled")
		}
	}
	_ = slow.Close() // it ends the dials, which are not answered
	all.Wait()
	for i, err := range failed {
		if err == nil || err.Error() != failed[0].Error() {
			t.Errorf("call %d fails: %v", i, err)
		}
	}
}

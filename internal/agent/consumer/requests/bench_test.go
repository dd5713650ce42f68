//go:build unix

package requests_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// cpuTime is the processor time of this process until now.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// 2,000 requests are made, held and signed. The API server and the broker are in this process, and their work is
// measured with the controller's.
func BenchmarkRequests(b *testing.B) {
	const count = 2000
	for b.Loop() {
		b.StopTimer()
		rome := newBorrower(b)
		var mu sync.Mutex
		deals := map[string]*transporttest.Deal{}
		rome.broker.OnReserve = func(key string, _ api.Request) (transport.Reservation, error) {
			mu.Lock()
			defer mu.Unlock()
			d := deals["r-"+key]
			if d == nil {
				d = transporttest.NewDeal(rome.rome, rome.milan, "r-"+key, "1", rome.now())
				deals["r-"+key] = d
			}
			return *d.Shown(), nil
		}
		rome.broker.OnConfirm = func(id, assignment string) (transport.Reservation, error) {
			mu.Lock()
			defer mu.Unlock()
			return *deals[id].SignedAs(assignment), nil
		}
		r := runController(b, rome)
		before := cpuTime(b)
		b.StartTimer()
		r.make("default", count)
		r.waitFor("held", func(all []api.ResourceRequest) bool {
			n := 0
			for _, o := range all {
				if o.Status.State == api.Held {
					n++
				}
			}
			return n == count
		})
		b.ReportMetric((cpuTime(b)-before).Seconds()*1000/count, "cpu-ms/request")
	}
}

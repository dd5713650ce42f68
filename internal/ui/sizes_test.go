package ui

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// Samples are kept of the pools whose page was opened: at most one each 10 s, of changes alone, and not without bound.
func TestSizesAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		var cpu atomic.Int64
		var fails atomic.Bool
		cpu.Store(1)
		pool := func(name string) (p api.Envelope[api.KnownVirtualNodePool]) {
			p.ID, p.Payload.Status.Used = name, api.Resources{"cpu": *resource.NewQuantity(cpu.Load(), resource.DecimalSI)}
			return p
		}
		s := &sizes{now: time.Now, of: map[string][]pages.Sample{},
			read: func(context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error) {
				if reads++; fails.Load() {
					return nil, errors.New("away")
				}
				return []api.Envelope[api.KnownVirtualNodePool]{pool("burst"), pool("other")}, nil
			}}
		pass := func(d time.Duration) {
			time.Sleep(d) // of the test's clock
			synctest.Wait()
		}
		s.change()
		pass(time.Minute)
		if reads != 0 {
			t.Errorf("%d reads without a page", reads)
		}
		s.look(pool("burst"))
		for range 100 { // a change each second, for 100 s
			cpu.Add(1)
			s.change()
			pass(time.Second)
		}
		if n := len(s.look(pool("burst"))); n < 10 || n > 12 || reads > 11 {
			t.Errorf("%d samples by %d reads within 100 s", n, reads)
		}
		s.change()
		pass(sampleEvery)
		before := s.look(pool("burst"))
		if got := before[len(before)-1].Used["cpu"]; got.Value() != cpu.Load() {
			t.Errorf("the last change is not there: %v, want %d", got, cpu.Load())
		}
		s.change()
		pass(sampleEvery)
		fails.Store(true)
		s.change()
		pass(sampleEvery)
		if after := s.look(pool("burst")); len(after) != len(before) || len(s.of) != 1 {
			t.Errorf("%d samples, then %d; of %d pools", len(before), len(after), len(s.of))
		}
		fails.Store(false)
		for range 2 * mostSamples {
			cpu.Add(1)
			s.change()
			pass(sampleEvery)
		}
		if n := len(s.look(pool("burst"))); n != mostSamples {
			t.Errorf("%d samples", n)
		}
		for i := range 3 * mostSampled {
			s.look(pool("p" + string(rune('a'+i))))
		}
		if len(s.of) > mostSampled {
			t.Errorf("%d pools", len(s.of))
		}
	})
}

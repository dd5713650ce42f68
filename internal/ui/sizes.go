package ui

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

const (
	// sampleEvery is the shortest time between two samples.
	sampleEvery = 10 * time.Second
	// mostSamples bounds the samples of a pool, and mostSampled the pools that have some.
	mostSamples, mostSampled = 360, 16
)

// sizes keeps in memory what VirtualNodePools used and reserved, of those whose page was opened in this run. Nothing in
// the cluster keeps it.
type sizes struct {
	read func(context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error)
	now  func() time.Time // the agent's

	mu     sync.Mutex
	of     map[string][]pages.Sample // by pool, the oldest first
	last   time.Time                 // when the pools were read last
	coming bool                      // they will be read again
}

func newSizes(o Options) *sizes {
	return &sizes{read: func(ctx context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error) {
		return o.Reads.VirtualNodePools(ctx)
	}, now: func() time.Time { return o.Acts.Now() }, of: map[string][]pages.Sample{}}
}

// look returns the samples of a pool, which has some from now on.
func (s *sizes) look(p api.Envelope[api.KnownVirtualNodePool]) []pages.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.of[p.ID]; !known {
		if len(s.of) >= mostSampled {
			clear(s.of)
		}
		s.add(p)
	}
	return slices.Clone(s.of[p.ID])
}

// change has the pools read again after some object changed, at most once per sampleEvery.
func (s *sizes) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coming || len(s.of) == 0 {
		return
	}
	s.coming = true
	time.AfterFunc(max(0, sampleEvery-time.Since(s.last)), s.sample)
}

// sample adds what the pools use and reserve now. What cannot be read has no sample.
func (s *sizes) sample() {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	pools, _ := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming, s.last = false, time.Now()
	for _, p := range pools {
		if _, known := s.of[p.ID]; known {
			s.add(p)
		}
	}
}

// add adds a sample that differs from the one before it. The oldest of too many goes.
func (s *sizes) add(p api.Envelope[api.KnownVirtualNodePool]) {
	had, now := s.of[p.ID], p.Payload.Status
	if n := len(had); n > 0 && equality.Semantic.DeepEqual(had[n-1].Used, now.Used) &&
		equality.Semantic.DeepEqual(had[n-1].Reserved, now.Reserved) {
		return
	}
	had = append(had, pages.Sample{At: s.now(), Used: now.Used, Reserved: now.Reserved})
	s.of[p.ID] = had[max(0, len(had)-mostSamples):]
}

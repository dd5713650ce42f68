package kube

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of what a journal writes to the API server. etcd keeps each version of each object until it
// compacts, by default every five minutes, and its default quota is 2 GiB. In five minutes a journal
// writes at most 684 MiB, so that an agent with two journals stays below the quota.
const (
	// appendRate and snapshotRate are in bytes per second. Appends with the parts that they file, and
	// parts of snapshots have separate limits, so that an append does not wait for a snapshot.
	appendRate, snapshotRate = 512 << 10, 512 << 10
	// appendBurst and snapshotBurst are how many bytes need no wait after a quiet time.
	appendBurst, snapshotBurst = 256 << 20, 128 << 20
)

// paces limit when the next bytes may be written.
type paces struct{ appends, snapshots *rate.Limiter }

func newPaces() paces {
	return paces{rate.NewLimiter(appendRate, appendBurst), rate.NewLimiter(snapshotRate, snapshotBurst)}
}

// spend counts written bytes. If they exceed the limit, the next write waits.
func spend(pace *rate.Limiter, bytes int) { pace.ReserveN(time.Now(), bytes) }

// await waits until the written bytes are within the limit. Events that come meanwhile go into one append.
func (j *Journal) await(ctx context.Context, pace *rate.Limiter) error {
	missing := -pace.Tokens()
	if missing <= 0 {
		return nil
	}
	j.waits.Add(1)
	timer := time.NewTimer(time.Duration(missing / float64(pace.Limit()) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package kube

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// How much a journal writes to the API server: etcd keeps each version of each object until it
// compacts, every five minutes by default, and its default quota is 2 GiB. In five minutes a
// journal writes at most 684 MiB, so an agent with two of them stays under it.
const (
	// appendRate and snapshotRate are in bytes a second. Appends, with what they file, and parts of
	// snapshots are counted apart, so that an append does not wait for a snapshot.
	appendRate, snapshotRate = 512 << 10, 512 << 10
	// appendBurst and snapshotBurst are how many bytes are written without a wait after a quiet time.
	appendBurst, snapshotBurst = 256 << 20, 128 << 20
)

// paces say when the next bytes may be written.
type paces struct{ appends, snapshots *rate.Limiter }

func newPaces() paces {
	return paces{rate.NewLimiter(appendRate, appendBurst), rate.NewLimiter(snapshotRate, snapshotBurst)}
}

// spend counts bytes that are written. They may be more than there are: then the next write waits.
func spend(pace *rate.Limiter, bytes int) { pace.ReserveN(time.Now(), bytes) }

// await waits until all that was spent is there again. What is asked for meanwhile goes into one append.
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

package ledger

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
)

// rollbackDetector is a journal that must not go back while the agent runs. If it does, the
// cluster's etcd was restored to an older state. Then all that the agent has read of the cluster is
// of no use, resource versions run backwards, and only a new start sees what is there.
type rollbackDetector struct {
	journal.Journal
	seen atomic.Uint64 // the newest revision that was read or written
}

func (d *rollbackDetector) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	before := d.seen.Load()
	head, err := d.Journal.Load(ctx, onSnapshot, onRecord)
	if err == nil && head.Revision < before {
		err = rolledBack(head.Revision, before)
	}
	if err == nil {
		d.seen.Store(head.Revision)
	}
	return head, err
}

func (d *rollbackDetector) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	head, err := d.Journal.Append(ctx, after, events)
	if err == nil {
		d.seen.Store(head.Revision)
	}
	return head, err
}

// watch reads the Ledger at each tick, and returns an error when it is older than the newest known
// revision. Without it, an agent whose cluster was restored would not notice, because it has nothing
// to write.
func (d *rollbackDetector) watch(ctx context.Context, r client.Reader,
	key client.ObjectKey, ticker clock.Ticker) error {
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		before := d.seen.Load() // first: what is read after it can only be newer
		var ledger api.Ledger
		err := r.Get(ctx, key, &ledger)
		switch {
		case err == nil && uint64(ledger.Spec.Head.Revision) < before:
			return rolledBack(uint64(ledger.Spec.Head.Revision), before)
		case client.IgnoreNotFound(err) == nil && err != nil && before > 0:
			return rolledBack(0, before)
		}
	}
}

func rolledBack(now, was uint64) error {
	return &journal.RefusedError{
		Where: "ledger", Found: fmt.Sprintf("it is at revision %d, and was at %d: an older state of the cluster was put back",
			now, was),
		Remedy: "start the agent again (a Deployment does): it takes back from the broker what it accepted",
	}
}

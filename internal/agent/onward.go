package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
)

// onward is a journal that must not go back while we run. When it does, the cluster's etcd was put back to
// an older state: whatever else we have read of the cluster is of a future that never was, resource versions run
// backwards, and only a new start sees what is there.
type onward struct {
	journal.Journal
	seen atomic.Uint64 // the newest revision that was read or written
}

func (o *onward) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (journal.Head, error) {
	before := o.seen.Load()
	head, err := o.Journal.Load(ctx, onSnapshot, onRecord)
	if err == nil && head.Revision < before {
		err = putBack(head.Revision, before)
	}
	if err == nil {
		o.seen.Store(head.Revision)
	}
	return head, err
}

func (o *onward) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	head, err := o.Journal.Append(ctx, after, events)
	if err == nil {
		o.seen.Store(head.Revision)
	}
	return head, err
}

// watch looks at the Ledger now and then although nothing is written, and ends with an error when it is older
// than what we know: an agent whose cluster was put back hears nothing more of it, and so writes nothing either.
func (o *onward) watch(ctx context.Context, r client.Reader, key client.ObjectKey, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		before := o.seen.Load() // first: what is read after it can only be newer
		var ledger api.Ledger
		err := r.Get(ctx, key, &ledger)
		switch {
		case err == nil && uint64(ledger.Spec.Head.Revision) < before:
			return putBack(uint64(ledger.Spec.Head.Revision), before)
		case client.IgnoreNotFound(err) == nil && err != nil && before > 0:
			return putBack(0, before)
		}
	}
}

func putBack(is, was uint64) error {
	return &journal.RefusedError{
		Where: "ledger", Found: fmt.Sprintf("it is at revision %d, and was at %d: an older state of the cluster was put back", is, was),
		Remedy: "start the agent again (a Deployment does): it takes back from the broker what it accepted",
	}
}

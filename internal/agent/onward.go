package agent

import (
	"context"
	"fmt"

	"github.com/bourse-dev/bourse/internal/journal"
)

// onward is a journal that must not go back while we run. When it does, the cluster's etcd was put back to
// an older state: whatever else we have read of the cluster is of a future that never was, resource versions run
// backwards, and only a new start sees what is there.
type onward struct {
	journal.Journal
	seen journal.Head // the exchange calls us from one goroutine at a time, but for Snapshot
}

func (o *onward) Load(ctx context.Context, onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (journal.Head, error) {
	head, err := o.Journal.Load(ctx, onSnapshot, onRecord)
	if err == nil && head.Revision < o.seen.Revision {
		err = &journal.RefusedError{
			Where: "ledger", Found: fmt.Sprintf("it is at %v, and was at %v: an older state of the cluster was put back", head, o.seen),
			Remedy: "start the agent again (a Deployment does): it takes back from the broker what it accepted",
		}
	}
	if err == nil {
		o.seen = head
	}
	return head, err
}

func (o *onward) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	head, err := o.Journal.Append(ctx, after, events)
	if err == nil {
		o.seen = head
	}
	return head, err
}

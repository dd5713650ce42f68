package catalog

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
)

// interrupted is a journal during whose first snapshot its agent ends. The next write conflicts with it.
type interrupted struct {
	journal.Journal
	end     context.CancelFunc
	written bool
}

func (i *interrupted) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	if i.end == nil && !i.written {
		i.written = true
		return journal.Head{}, journal.ErrConflict
	}
	return i.Journal.Append(ctx, after, events)
}

func (i *interrupted) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	if end := i.end; end != nil {
		i.end = nil
		end()
		return ctx.Err()
	}
	return i.Journal.Snapshot(ctx, head, write)
}

// A save that the end of the agent interrupts is made at the end.
func TestASaveIsInterrupted(t *testing.T) {
	kept, now := memorytest.New(), testclock.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	open := func(j journal.Journal) *Cache {
		c := New(Options{Cluster: "rome", Journal: j, Clock: now, Log: slog.New(slog.DiscardHandler)})
		c.Load(t.Context())
		return c
	}
	c := open(&interrupted{Journal: kept, end: cancel})
	c.Record("", api.WatchEvent{Type: api.WatchCatalog, Complete: true})
	c.Record("", stallOf("milan", "web"))
	c.Record("", api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for !now.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	now.Step(firstSave)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := open(kept).names(api.CatalogQuery{}, now.Now()); got != "milan/web" {
		t.Errorf("%q is saved", got)
	}
}

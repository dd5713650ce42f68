package catalog

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
)

// slowJournal answers an append once the test lets it.
type slowJournal struct {
	*memorytest.Journal
	begun, goes chan struct{}
}

func (j slowJournal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	close(j.begun)
	<-j.goes
	return j.Journal.Append(ctx, after, events)
}

// The watches of brokers go on while the API server takes long to save the copy.
func TestTheCopyIsSavedSlowly(t *testing.T) {
	j := slowJournal{memorytest.New(), make(chan struct{}), make(chan struct{})}
	c := New(Options{Clock: clock.RealClock{},
		Cluster: "rome", Journal: j, Log: slog.New(slog.DiscardHandler)})
	c.Load(t.Context())
	saved, said := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(saved)
		c.save(t.Context())
	}()
	<-j.begun
	go func() {
		defer close(said)
		c.Record("", api.WatchEvent{Type: api.WatchCatalog, Complete: true})
		c.Record("", api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"})
	}()
	select {
	case <-said:
	case <-time.After(10 * time.Second):
		t.Error("a watch waits for the API server")
	}
	close(j.goes)
	<-saved
	<-said
	if c.Token("") != "a.1" {
		t.Errorf("it continues at %q", c.Token(""))
	}
}

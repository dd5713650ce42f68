package exchange_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/raced"
)

func ignoreSnapshot(journal.Head, []byte) error { return nil }

func ignoreRecord(journal.Record) error { return nil }

// tail is from which revision on a journal has records, and how many; what is before is a snapshot.
func tail(t *testing.T, j journal.Journal) (from uint64, records int) {
	t.Helper()
	if _, err := j.Load(context.Background(),
		func(head journal.Head, _ []byte) error { from = head.Revision; return nil },
		func(journal.Record) error { records++; return nil }); err != nil {
		t.Fatal(err)
	}
	return from, records
}

// A journal stays short, and leads to the same market.
func TestCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{SnapshotEvery: 10})
		x.advertise("rome", 2, "1000")
		for i := range 100 {
			x.must(hold(fmt.Sprint("r", i), 1))
			synctest.Wait() // until the snapshot is stored
		}
		want := x.snapshot()
		if from, records := tail(t, j); from < 90 || records > 20 {
			t.Errorf("%d records after a snapshot at %d", records, from)
		}
		if n := j.snapshots.Load(); n != 10 {
			t.Errorf("%d snapshots of 107 events", n)
		}
		if err := x.stop(); err != nil {
			t.Fatal(err)
		}
		if got := start(t, j, exchange.Options{}).snapshot(); got != want {
			t.Errorf("it was\n%s\nand is\n%s", want, got)
		}
	})
}

// A journal is compacted by the bytes of its events, too: a few large ones are as long as many small ones.
func TestCompactionByBytes(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{})
		x.advertise("rome", 2, "10000")
		for i := range 3000 { // 90 MiB
			h := hold(fmt.Sprint("r", i), 1)
			h.Request = &api.Request{Where: strings.Repeat("x", 30<<10)}
			x.must(h)
			x.must(market.Release{ID: h.ID, By: h.Consumer, Generation: 1})
		}
		synctest.Wait()
		if n := j.snapshots.Load(); n < 1 || n > 3 {
			t.Errorf("%d snapshots of 180 MiB of events", n)
		}
	})
}

// Nobody writes to a journal after Run: a snapshot that is on its way is waited for.
func TestStopWaitsForTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		j := &faulty{Journal: newMemory(), slow: slow}
		x := founded(t, j, exchange.Options{SnapshotEvery: 2})
		x.cancel()
		synctest.Wait()
		if n := j.snapshots.Load(); n != 1 {
			t.Errorf("%d snapshots at once", n)
		}
		select {
		case err := <-x.ended:
			t.Errorf("ended with %v", err)
		default:
		}
		close(slow)
		if err := x.stop(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

// That a snapshot cannot be stored harms nobody.
func TestCompactionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory(), snapshot: errDisk}
		x := founded(t, j, exchange.Options{SnapshotEvery: 2})
		for i := range 8 {
			x.must(hold(fmt.Sprint("r", i), 1))
			synctest.Wait()
		}
		if from, records := tail(t, j); from != 0 || records != 12 {
			t.Errorf("%d records after a snapshot at %d", records, from)
		}
	})
}

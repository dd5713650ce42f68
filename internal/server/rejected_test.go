package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// hopeless is a large request that no cluster can serve.
func hopeless() api.Request {
	r := transporttest.Request("1000")
	r.Where = "'" + strings.Repeat("x", 1900) + "' == region"
	for i := range 60 {
		r.Exclude = append(r.Exclude, fmt.Sprintf("%s-%d", strings.Repeat("c", 50), i))
	}
	return r
}

// countingJournal is a journal in memory that counts what is appended, but not what the broker
// notices of leases by itself, as time passes.
type countingJournal struct {
	*memorytest.Journal
	t      *testing.T
	events atomic.Int64
}

// Append implements journal.Journal.
func (j *countingJournal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	for _, data := range events {
		if e, err := market.NewEventReader().Read(data); err != nil {
			j.t.Error(err)
		} else if e.Leases == nil {
			j.events.Add(1)
		}
	}
	return j.Journal.Append(ctx, after, events)
}

// Rejected requests leave nothing in the journal or in the market, however many they are. The
// newest are remembered for a while, so that a repeat gets the same answer, and `bourse why`
// explains them.
func TestRejectedRequestsAreNotKept(t *testing.T) {
	ctx := context.Background()
	log := &countingJournal{Journal: memorytest.New(), t: t}
	f := servertest.Start(t, servertest.Options{Journal: log})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	before, had := log.events.Load(), records(t, f)
	if before == 0 {
		t.Fatal("no event is counted of two members that joined")
	}
	const all = 300
	var ids []string
	for i := range all {
		r, err := rome.Reserve(ctx, fmt.Sprint("key-", i), hopeless())
		if err != nil || r.Payload.State != api.Rejected || r.Payload.Decision == nil {
			t.Fatalf("request %d: %s, %v", i, r.Payload.State, err)
		}
		ids = append(ids, r.ID)
	}
	if now, len := log.events.Load(), records(t, f); now != before || len != had {
		t.Errorf("%d rejected requests are %d events and %d records, want none", all, now-before, len-had)
	}
	last, err := rome.Reserve(ctx, fmt.Sprint("key-", all-1), hopeless())
	if err != nil || last.ID != ids[all-1] {
		t.Errorf("the repeat of the last one is %s, %v, want %s", last.ID, err, ids[all-1])
	}
	if _, err := rome.Reserve(ctx, fmt.Sprint("key-", all-1),
		transporttest.Request("999")); api.CodeOf(err) != api.CodeKeyReused {
		t.Errorf("its key with another request: %v", err)
	}
	kept, err := rome.Reservation(ctx, ids[all-1])
	if err != nil || kept.Payload.State != api.Rejected || kept.Payload.Request != nil {
		t.Fatalf("it is kept as %s, %v", kept.Payload.State, err)
	}
	if diff := cmp.Diff(last.Payload.Decision, kept.Payload.Decision); diff != "" || kept.Payload.Decision == nil {
		t.Errorf("its explanation differs: %s", diff)
	}
	if again, err := rome.Release(ctx, last.ID, rome.End(last, api.ReasonReleased)); err != nil ||
		again.Payload.State != api.Rejected {
		t.Errorf("released it is %s, %v", again.Payload.State, err)
	}
	for _, who := range []*servertest.Member{milan, f.Join("oslo")} {
		if _, err := who.Reservation(ctx, last.ID); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("%s reads it: %v", who.ID, err)
		}
	}
	if _, err := rome.Reservation(ctx, ids[0]); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the first of %d is still remembered: %v", all, err)
	}
	if first, err := rome.Reserve(ctx, "key-0", hopeless()); err != nil ||
		first.Payload.State != api.Rejected || first.ID == ids[0] {
		t.Errorf("what is forgotten is not decided again: %s, %v", first.ID, err)
	}
	listed, err := rome.Reservations(ctx)
	if err != nil || len(listed) != 100 {
		t.Errorf("%d are listed, %v, want the newest 100", len(listed), err)
	}
}

// A repeat of a rejected request gets the same answer, byte for byte, also when it could be served by now.
func TestRepeatOfARejectedRequest(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	first, err := rome.Reserve(ctx, "key", transporttest.Request("16"))
	if err != nil || first.Payload.State != api.Rejected || first.Payload.Request == nil {
		t.Fatalf("%s, %v", first.Payload.State, err)
	}
	milan.Advertise("32")
	again, err := rome.Reserve(ctx, "key", transporttest.Request("16"))
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		t.Errorf("the repeat differs (%v): %s", err, diff)
	}
	if other, err := rome.Reserve(ctx, "another", transporttest.Request("16")); err != nil ||
		other.Payload.State != api.Held {
		t.Errorf("another key gets %s, %v", other.Payload.State, err)
	}
}

func records(t *testing.T, f *servertest.Federation) (n int) {
	t.Helper()
	if err := f.Exchange.Read(context.Background(), func(s *market.State) { n = s.Len() }); err != nil {
		t.Fatal(err)
	}
	return n
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

var errEnough = errors.New("enough")

// watched is what one watch told.
type watched struct {
	complete bool
	states   map[string]api.State // by ID, the newest
	told     int                  // how many reservations were told
	standing []api.Membership     // what was told of others, in order
	token    string
}

// watch watches from a token until enough says so after a bookmark, or a minute.
func watch(t *testing.T, c *client.Client, token string, enough func(watched) bool) watched {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := watched{states: map[string]api.State{}}
	err := c.Watch(ctx, token, func(e api.WatchEvent) error {
		switch e.Type {
		case api.WatchSnapshot:
			w.complete = e.Complete
		case api.WatchReservation:
			w.told++
			w.states[e.Object.ID] = e.Object.Payload.State
		case api.WatchStanding:
			w.standing = append(w.standing, *e.Standing)
		case api.WatchBookmark:
			if w.token = e.Token; enough(w) {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("it told %+v and ended with %v", w, err)
	}
	return w
}

func snapshot(watched) bool { return true }

// A watch opens with everything that concerns the caller, and then tells what changes.
func TestWatch(t *testing.T) {
	ctx := context.Background()
	w := newFixture(t)
	if got := watch(t, w.milan.Client, "", snapshot); !got.complete || got.told != 2 {
		t.Errorf("the provider's snapshot: %+v", got)
	}
	if got := watch(t, w.oslo.Client, "", snapshot); !got.complete || got.told != 0 {
		t.Errorf("a neighbour's snapshot: %+v", got)
	}
	first := true
	watch(t, w.rome.Client, "", func(got watched) bool {
		if first {
			first = false
			if got.told != 3 {
				t.Errorf("the consumer's snapshot: %+v", got)
			}
			if _, err := w.rome.Progress(ctx, w.bound.ID, api.Active); err != nil {
				t.Fatal(err)
			}
		}
		return got.states[w.bound.ID] == api.Active
	})
}

// Resuming from a bookmark misses nothing and tells nothing twice.
func TestWatchResumes(t *testing.T) {
	ctx := context.Background()
	w := newFixture(t)
	before := watch(t, w.rome.Client, "", snapshot)
	if _, err := w.rome.Progress(ctx, w.bound.ID, api.Active); err != nil { // while nobody watches
		t.Fatal(err)
	}
	after := watch(t, w.rome.Client, before.token, snapshot)
	if after.complete || after.told != 1 || after.states[w.bound.ID] != api.Active {
		t.Errorf("resumed: %+v", after)
	}
	if again := watch(t, w.rome.Client, after.token, snapshot); again.told != 0 {
		t.Errorf("resumed from where it is: %+v", again)
	}
}

// The token of another life of the journal, or of a future that was lost, is worth nothing:
// everything is told.
func TestWatchAfterARestore(t *testing.T) {
	w := newFixture(t)
	first := watch(t, w.rome.Client, "", snapshot)
	for name, token := range map[string]string{
		"another lineage":      "other.1",
		"a revision to come":   first.token + "0",
		"nothing of a lineage": ".5",
	} {
		if got := watch(t, w.rome.Client, token, snapshot); !got.complete || got.told != 3 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A member that is suspended gets no rest of what its watch was telling it, however slowly it reads.
func TestASuspendedReaderGetsNoRest(t *testing.T) {
	const many, long = 1500, 28 << 10
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("2000")
	need := transporttest.Request("1")
	size, err := amounts.ParseRequest("resources", need.Resources)
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		id := fmt.Sprint("r-", i)
		for _, c := range []market.Command{
			&market.Hold{ID: id, Key: id, Digest: "d", Consumer: "rome", Request: &need, Pool: api.GeneralPool, Size: size,
				Duration: time.Hour, Candidates: []string{"milan"}, Decision: &api.Decision{Considered: 1, Candidates: 1}},
			market.Confirm{ID: id, Consumer: "rome", Generation: 1, Document: strings.Repeat("d", long)},
		} {
			if _, err := f.Exchange.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	answer, err := rome.HTTP.Get(f.URL + prefix + "/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, piece := 0, make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = answer.Body.Read(piece)
		if read == 0 {
			if _, err := f.Operator.SetMember(t.Context(), "rome", "suspend"); err != nil {
				t.Fatal(err)
			}
		}
		read += n
		time.Sleep(5 * time.Millisecond)
	}
	if read > many*long/2 {
		t.Errorf("it reads %d bytes, most of what there is", read)
	}
}

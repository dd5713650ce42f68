package robustness

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// clock is the machine's, until a test interferes.
type clock struct {
	start time.Time

	mu           sync.Mutex
	wall, passed time.Duration // more than the machine's
	frozen       time.Time     // what the machine's showed when it was frozen
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine().Round(0).Add(c.wall)
}

func (c *clock) Passed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine().Sub(c.start) + c.passed
}

func (c *clock) machine() time.Time { return cmp.Or(c.frozen, time.Now()) }

// freeze lets time pass only as the test says, however slow the machine is.
func (c *clock) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = time.Now()
}

// jump moves what the wall shows; no time passes.
func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// pass lets time pass: in one piece, as for a process that stood still.
func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
	c.passed += d
}

// hosted is a broker in this process, whose clock is ours. The rest of it is as in the binary.
type hosted struct {
	t        *testing.T
	clock    *clock
	options  broker.Options
	operator *client.Client
	stop     func()
}

func newHosted(t *testing.T) *hosted {
	t.Helper()
	dir, err := os.MkdirTemp("", "bourse")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosted{t: t, clock: newClock()}
	h.options = broker.Options{
		Dir: filepath.Join(dir, "data"), Socket: filepath.Join(dir, "broker.sock"), Listen: freeAddress(t),
		MetricsAddress: freeAddress(t), Clock: h.clock, Log: logger(), AuditEvery: 100 * time.Millisecond,
	}
	h.operator = client.New("unix://"+h.options.Socket, nil)
	t.Cleanup(func() {
		h.stop()
		os.RemoveAll(dir)
	})
	h.run()
	return h
}

// run starts the broker, also after it was stopped.
func (h *hosted) run() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	h.options.Ready = func(string) { close(ready) }
	go func() { ended <- broker.Run(ctx, h.options) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the broker ended: %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		h.t.Fatalf("the broker did not start: %v", err)
	}
}

// join makes a cluster a member that shows its card; its clock shows what the broker's does.
func (h *hosted) join(name string) *member.Member { return join(h.t, h.operator, name, h.clock.Wall()) }

// look makes the broker look at its clock.
func (h *hosted) look() {
	h.t.Helper()
	if _, err := h.operator.Members(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// wait lets time pass in pieces that are no pause.
func (h *hosted) wait(d time.Duration) {
	h.t.Helper()
	for ; d > 0; d -= 10 * time.Second {
		h.clock.pass(min(d, 10*time.Second))
		h.look()
	}
}

// The broker's clock is a day wrong, and then right again: nobody notices, and the journal never
// stores a jumped time.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	began := time.Now().Add(-time.Minute)
	rome := startCluster(t, h.operator, "rome", "4", false)
	milan := startCluster(t, h.operator, "milan", "100", true)
	offered(t, h.operator, "milan")
	ids := []string{agreed(rome, milan, "before", 1000)}
	for name, d := range map[string]time.Duration{"later": 24 * time.Hour, "earlier": -24 * time.Hour} {
		for _, d := range []time.Duration{d, -d} {
			h.clock.jump(d)
			h.look()
			ids = append(ids, agreed(rome, milan, name+suffix(d), 1000))
		}
	}
	for range 4 { // what ends by time alone would have ended by now
		h.look()
	}
	if gone := bound(rome, milan, ids...); gone != nil {
		t.Errorf("%s", gone)
	}
	if jumps := metric(t, h.options.MetricsAddress, "bourse_clock_jumps_total"); jumps != "4" {
		t.Errorf("%s jumps were counted, want 4", jumps)
	}

	// Started again with a clock that is late, time goes on from the journal's.
	h.stop()
	h.clock.jump(-24 * time.Hour)
	h.run()
	offered(t, h.operator, "milan")
	agreed(rome, milan, "after", 1000)
	h.stop()
	times := journalled(t, filepath.Join(h.options.Dir, broker.JournalFile))
	for i, at := range times {
		if at.Before(began) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("event %d is of %s, it is %s", i, at, time.Now())
		}
		if i > 0 && at.Before(times[i-1]) {
			t.Errorf("event %d is of %s, the one before of %s", i, at, times[i-1])
		}
	}
	if len(times) < 20 {
		t.Errorf("only %d events were journalled: nothing was tested", len(times))
	}
}

func suffix(d time.Duration) string {
	if d > 0 {
		return "-plus"
	}
	return "-minus"
}

// offered waits until the broker may sell what a cluster has.
func offered(t *testing.T, operator *client.Client, name string) {
	t.Helper()
	eventually(t, name+" is fresh", func(ctx context.Context) bool {
		c, err := operator.Cluster(ctx, name)
		return err == nil && c.Payload.Fresh && len(c.Payload.Pools) > 0
	})
}

// journalled are the times of all events in a journal.
func journalled(t *testing.T, path string) (times []time.Time) {
	t.Helper()
	j := sqlite.New(path)
	defer j.Close()
	_, err := j.Load(t.Context(), func(journal.Head, []byte) error { return nil }, func(r journal.Record) error {
		for _, data := range r.Events {
			e, err := market.NewEventReader().Read(data)
			if err != nil {
				return err
			}
			times = append(times, e.Time.Go())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

package robustness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// The broker stood still for two hours. Nobody could speak to it, so silence says nothing: no
// lease, no hold and no reservation ends before everyone had the time of a lease to speak. Then
// time goes on.
func TestPausedForTwoHours(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	rome, milan := h.join("rome"), h.join("milan")
	if err := milan.Offer(t.Context(), cpu(10_000)); err != nil {
		t.Fatal(err)
	}
	reserve := func(key string) client.Reservation {
		t.Helper()
		r, err := rome.Reserve(t.Context(), key, api.Request{Resources: cpu(1000),
			Duration: &metav1.Duration{Duration: time.Hour}})
		if err != nil || r.Payload.State != api.Held {
			t.Fatalf("%s: %v: %+v", key, err, r)
		}
		return r
	}
	is := func(r client.Reservation, want api.State) {
		t.Helper()
		if now := all(t, h.operator)[r.ID].Payload; now.State != want {
			t.Errorf("reservation is %s (%s), want %s", now.State, now.Reason, want)
		}
	}
	held, confirmed, bound := reserve("held"), reserve("confirmed"), reserve("bound")
	if _, err := rome.Bind(t.Context(), bound, milan); err != nil {
		t.Fatal(err)
	}

	h.clock.freeze()
	h.clock.pass(2 * time.Hour)
	h.look()
	is(held, api.Held)
	is(bound, api.Reserved)   // though its own time is over
	later := reserve("later") // milan is still fresh
	if r, err := rome.Bind(t.Context(), confirmed, milan); err != nil || r.Payload.State != api.Reserved {
		t.Errorf("what was held before the pause cannot be bound after it: %v", err)
	}
	h.wait(80 * time.Second)
	is(held, api.Held)
	is(bound, api.Reserved)

	h.wait(30 * time.Second)
	is(held, api.Expired)
	is(later, api.Expired)
	is(bound, api.Releasing)
	is(confirmed, api.Releasing)
	if c, err := h.operator.Cluster(t.Context(), "milan"); err != nil || c.Payload.Fresh {
		t.Errorf("milan has said nothing for longer than a lease and is fresh: %v", err)
	}
	balanced(t, h.options.MetricsAddress)
}

// The real process stopped and continued: who called meanwhile is answered, and nothing ended.
func TestStoppedAndContinued(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	rome, milan := b.join("rome"), b.join("milan")
	watch := follow(t, rome)
	if err := milan.Offer(t.Context(), cpu(10_000)); err != nil {
		t.Fatal(err)
	}
	held, err := rome.Reserve(t.Context(), "held", api.Request{Resources: cpu(1000)})
	if err != nil {
		t.Fatal(err)
	}
	watch.sees(all(t, b.operator))
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := b.life.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	standsStill(t, b.life.cmd.Process.Pid)
	answered := make(chan error, 1)
	go func() {
		_, err := rome.Reserve(t.Context(), "meanwhile", api.Request{Resources: cpu(1000)})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a process that stands still answered: %v", err)
	case <-time.After(2 * time.Second):
	}
	signal(syscall.SIGCONT)
	if err := <-answered; err != nil {
		t.Errorf("the call that waited: %v", err)
	}
	if r, err := rome.Bind(t.Context(), held, milan); err != nil || r.Payload.State != api.Reserved {
		t.Errorf("what was held before cannot be bound: %v", err)
	}
	watch.sees(all(t, b.operator))
	b.balanced()
}

// standsStill waits until a process that was told to stop has: its threads may run on for a moment.
// Where there is no /proc to look at, the moment is waited for.
func standsStill(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			time.Sleep(time.Second)
			return
		}
		if !slices.ContainsFunc(tasks, runs) {
			return
		}
	}
	t.Fatal("it goes on")
}

// runs says whether a thread, by its stat file in /proc, is not stopped: its state follows the name
// in brackets.
func runs(stat string) bool {
	text, err := os.ReadFile(stat)
	if err != nil {
		return false // it has ended
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(after, "T")
}

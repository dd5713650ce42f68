package debounce

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestDebouncer(t *testing.T) {
	now := testclock.NewFakeClock(time.Now())
	d := New[string](now)
	expect := func(what string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("a new state", d.Age("a", "opening"), 0)
	now.Step(Passing - 1)
	if !d.Passes("a", "opening") {
		t.Error("it lasts before its time")
	}
	now.Step(1)
	if d.Passes("a", "opening") {
		t.Error("it passes for ever")
	}
	expect("another thing", d.Age("b", "opening"), 0)
	expect("another state", d.Age("a", "open"), 0)
	now.Step(time.Minute)
	expect("the same state", d.Age("a", "open"), time.Minute)
	d.Forget("a")
	expect("a thing that was forgotten", d.Age("a", "open"), 0)

	now.Step(forgetAfter + 1)
	d.Age("c", "opening")
	if len(d.known) != 1 {
		t.Errorf("%d names are remembered, want the one that was asked about", len(d.known))
	}
}

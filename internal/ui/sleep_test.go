package ui

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// After a machine slept, every question is asked again, though no timer says that its answer is old. The pages say how
// long it slept. Pages that nobody opens end after 12 hours of the wall clock.
func TestAfterSleepEverythingIsAskedAgain(t *testing.T) {
	u := New(Options{Reads: cluster.At(nil, nil), Acts: cluster.At(nil, nil), Log: slog.New(slog.DiscardHandler),
		May: func(context.Context, string) pages.Rights { return pages.Rights{} }}, "/s/0")
	asked := 0
	question := func() {
		_, _ = ask(t.Context(), u.source, question{"q", "it"}, func(context.Context) (int, error) { asked++; return asked, errors.New("no") })
	}
	question()
	question()
	if asked != 1 {
		t.Fatalf("asked %d times at once", asked)
	}
	wall, ticks, ended := make(chan time.Time), make(chan time.Time), make(chan bool)
	go func() {
		u.watchTime(t.Context(), ticks, func() time.Time { return <-wall })
		close(ended)
	}()
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	wall <- at // used
	wall <- at // last
	wall <- at // is it over?
	ticks <- at
	at = at.Add(lookEvery)
	wall <- at
	wall <- at
	if len(u.asleep()) > 0 {
		t.Error("a machine that was awake slept")
	}
	ticks <- at
	at = at.Add(8 * time.Hour)
	wall <- at
	wall <- at
	banners := u.asleep()
	if len(banners) != 1 || !strings.Contains(banners[0].Text, "2026-05-04 12:00:05 UTC to 2026-05-04 20:00:05 UTC") {
		t.Errorf("the pages say %v", banners)
	}
	question()
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	ticks <- at
	at = at.Add(5 * time.Hour)
	wall <- at
	wall <- at
	<-ended
}

package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

func (x *running) watch(cluster, lineage string, after uint64) *exchange.Watch {
	x.t.Helper()
	w, err := x.Watch(context.Background(), cluster, lineage, after)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(w.Close)
	return w
}

// told is what a watch tells next, without waiting for more: "ID state, ..." and the revision it leads to.
func told(t *testing.T, w *exchange.Watch) (string, uint64) {
	t.Helper()
	changes, revision, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return words(changes), revision
}

func words(changes []*market.Reservation) string {
	var out []string
	for _, r := range changes {
		out = append(out, r.ID+" "+string(r.State))
	}
	return strings.Join(out, ", ")
}

// silent fails if a watch has something to tell.
func silent(t *testing.T, w *exchange.Watch) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if changes, _, err := w.Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("told %s, %v", words(changes), err)
	}
}

func (x *running) confirm(id string) {
	x.t.Helper()
	x.must(market.Confirm{ID: id, Consumer: "paris", Generation: 1, Document: "assignment of " + id})
}

// A watch opens with what concerns its cluster, and goes on with what changes; a provider learns of a
// reservation when it is signed.
func TestWatch(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	x.must(hold("a", 1))
	x.must(hold("b", 1))
	x.confirm("a")
	paris, rome, stranger := x.watch("paris", "", 0), x.watch("rome", "", 0), x.watch("oslo", "", 0)
	if got := words(paris.Snapshot); got != "b Held, a Held" ||
		paris.Lineage != x.Lineage() || paris.Revision != x.View().Revision {
		t.Errorf("paris begins with %s at %d", got, paris.Revision)
	}
	if got := words(rome.Snapshot); got != "a Held" || rome.Snapshot[0].Assignment == "" {
		t.Errorf("rome begins with %s", got)
	}
	x.must(hold("c", 1))
	silent(t, rome)
	x.must(market.Accept{ID: "a", Provider: "rome", Generation: 1, Document: "acceptance"})
	x.confirm("c")
	if got, revision := told(t, paris); got != "a Reserved, c Held" || revision != x.View().Revision {
		t.Errorf("paris is told %s up to %d", got, revision)
	}
	if got, _ := told(t, rome); got != "a Reserved, c Held" {
		t.Errorf("rome is told %s", got)
	}
	silent(t, paris)
	silent(t, stranger)
}

// A token resumes at its revision. An unknown token starts from the beginning.
func TestWatchResumes(t *testing.T) {
	j := newMemory()
	x := founded(t, j, exchange.Options{})
	x.must(hold("a", 1))
	x.must(hold("b", 1))
	_, token := func() (string, uint64) { w := x.watch("paris", "", 0); return "", w.Revision }()
	x.confirm("a")
	x.must(hold("c", 1))
	lineage := x.Lineage()
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	x = start(t, j, exchange.Options{})
	for name, c := range map[string]struct {
		lineage string
		after   uint64
		want    string
	}{
		"from the token":      {lineage, token, "a Held, c Held"},
		"from the newest":     {lineage, x.View().Revision, ""},
		"from the beginning":  {lineage, 0, "b Held, a Held, c Held"},
		"of another lineage":  {"another", token, "b Held, a Held, c Held"},
		"of no lineage":       {"", token, "b Held, a Held, c Held"},
		"beyond what we know": {lineage, 1_000_000, "b Held, a Held, c Held"}, // it was lost here: tell everything
	} {
		if got := words(x.watch("paris", c.lineage, c.after).Snapshot); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Every token of a watch resumes without a gap, wherever a reader stops.
func TestEveryTokenResumes(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	x.advertise("rome", 2, "1000")
	w := x.watch("paris", "", 0)
	for i := range 20 {
		x.must(hold(fmt.Sprint("r", i), 1))
		if i%3 == 0 {
			_, token := told(t, w)
			x.confirm(fmt.Sprint("r", i))
			resumed := x.watch("paris", x.Lineage(), token)
			if got := words(resumed.Snapshot); got != fmt.Sprintf("r%d Held", i) || resumed.Snapshot[0].Assignment == "" {
				t.Errorf("resumed from %d with %s", token, got)
			}
			told(t, w)
		}
	}
}

// A reader that is slower than the market is dropped, and takes no memory.
func TestSlowReader(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	x.advertise("rome", 2, "100000")
	slow, idle := x.watch("paris", "", 0), x.watch("rome", "", 0)
	for i := range exchange.MaxBehind {
		x.must(hold(fmt.Sprint("r", i), 1))
	}
	if x.Behind(slow) != exchange.MaxBehind {
		t.Errorf("%d wait", x.Behind(slow))
	}
	x.must(hold("one too many", 1))
	x.must(hold("and another", 1))
	if x.Behind(slow) != 0 {
		t.Errorf("%d wait for a reader that was dropped", x.Behind(slow))
	}
	if _, _, err := slow.Next(t.Context()); !errors.Is(err, exchange.ErrBehind) {
		t.Errorf("the slow reader gets %v", err)
	}
	silent(t, idle)
	if got := len(x.watch("paris", slow.Lineage, slow.Revision).Snapshot); got != exchange.MaxBehind+2 {
		t.Errorf("it resumes with %d", got)
	}
}

// What changes again before it is read is told once, as it is now.
func TestWatchTellsTheNewest(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	w := x.watch("paris", "", 0)
	x.must(hold("a", 1))
	x.must(hold("b", 1))
	x.confirm("a")
	x.must(market.Release{ID: "b", By: "paris", Generation: 1})
	if got, _ := told(t, w); got != "a Held, b Failed" {
		t.Errorf("told %s", got)
	}
}

func TestClosedWatches(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel() // the operator who suspends a member need not wait for it
	for range 20 {
		dropped := x.watch("rome", "", 0)
		x.CloseWatches(gone, "rome")
		if _, _, err := dropped.Next(gone); !errors.Is(err, exchange.ErrClosed) {
			t.Errorf("dropped: %v", err)
		}
	}
	closed, left := x.watch("paris", "", 0), x.watch("paris", "", 0)
	closed.Close()
	silent(t, left)
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*exchange.Watch{closed, left} {
		if _, _, err := w.Next(t.Context()); !errors.Is(err, exchange.ErrClosed) {
			t.Errorf("next: %v", err)
		}
	}
	if _, err := x.Watch(t.Context(), "paris", "", 0); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("a watch of what has stopped: %v", err)
	}
}

// A closed watch is forgotten by its exchange, and so is one whose caller left while it was opened.
func TestWatchesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := founded(t, newMemory(), exchange.Options{})
		for range 10 {
			x.watch("paris", "", 0).Close()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if w, err := x.Watch(gone, "paris", "", 0); err == nil {
				w.Close()
			}
		}
		synctest.Wait()
		if got := x.Watches(); got != 0 {
			t.Errorf("%d watches are left", got)
		}
	})
}

// Tokens are void in another lineage: the reader starts from the beginning.
func TestNewLineageEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newMemory()
		x := founded(t, j, exchange.Options{Resume: true})
		w := x.watch("paris", "", 0)
		head, err := j.Load(t.Context(), ignoreSnapshot, ignoreRecord)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.NewLineage(t.Context(), head); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Do(t.Context(), hold("a", 1)); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("it lost the race, and was told %v", err)
		}
		x.must(hold("a", 1))
		if _, _, err := w.Next(t.Context()); !errors.Is(err, exchange.ErrBehind) {
			t.Errorf("next: %v", err)
		}
		if x.Lineage() == w.Lineage {
			t.Error("the lineage is the old one")
		}
	})
}

// What is being sent is cut where a watch gives way or its member may no longer watch, and nowhere else.
func TestWhatIsCut(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	for what, c := range map[string]struct {
		end  func(*exchange.Watch)
		cuts bool
	}{
		"gives way": {(*exchange.Watch).GiveWay,
			true}, "suspended": {func(*exchange.Watch) { x.CloseWatches(t.Context(), "rome") }, true},
		"closed": {(*exchange.Watch).Close, false}, "the end of all": {func(*exchange.Watch) { x.EndWatches() }, false},
	} {
		w := x.watch("rome", "", 0)
		if w.Cut().Err() != nil {
			t.Errorf("%s: cut from the beginning", what)
		}
		c.end(w)
		if is := w.Cut().Err() != nil; is != c.cuts {
			t.Errorf("%s: cut %v, want %v", what, is, c.cuts)
		}
		w.Close()
	}
}

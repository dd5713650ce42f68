// Package journaltest is the conformance suite of journals.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Run holds an implementation to the contract of journal.Journal. place makes somewhere to keep a new
// journal, and returns how to open it, not loaded: each call stands for a process that begins after
// the one before was killed, whether or not that closed its journal. Journals must close themselves in
// t.Cleanup.
func Run(t *testing.T, place func(testing.TB) (open func() journal.Journal)) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, func() journal.Journal)
	}{
		{"a new journal is empty", newIsEmpty},
		{"load comes first", loadComesFirst},
		{"what was appended is replayed", appendIsReplayed},
		{"only the head can be appended to", appendIsConditional},
		{"invalid input changes nothing", invalidInput},
		{"an ended context changes nothing", endedContext},
		{"the caller may reuse its memory", memoryIsCopied},
		{"a snapshot stands for what it replaces", snapshotReplaces},
		{"a snapshot needs a head of the journal", snapshotIsConditional},
		{"a new lineage continues the history", lineageContinues},
		{"errors of callbacks end a load", callbackErrors},
		{"events may be big", bigEvents},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, place(t)) })
	}
	t.Run("two journals have two lineages", func(t *testing.T) {
		if a, b := load(t, place(t)()).head, load(t, place(t)()).head; a.Lineage == b.Lineage || a.Hash == b.Hash {
			t.Errorf("both begin at %v", a)
		}
	})
	t.Run("any history survives", func(t *testing.T) { anyHistory(t, place) })
}

// Store is a journal that a broker can be told to keep its market in.
type Store interface {
	journal.Journal
	Read(context.Context, func(journal.Head, []byte) error, func(journal.Record) error) (journal.Head, error)
	Begin(ctx context.Context, head journal.Head, write func(io.Writer) error) error
}

// RunStore holds a store to what backups need of it.
func RunStore(t *testing.T, place func(testing.TB) (open func() Store)) {
	open := place(t)
	j := open()
	head := Next(Next(journal.Genesis(), batch("a", "b")), batch("c"))
	if _, err := j.Read(t.Context(), nil, nil); err == nil {
		t.Error("read what is not there")
	}
	state := string(bytes.Repeat([]byte("0123456789abcdef"), 100_000))
	if err := j.Begin(t.Context(), head, journal.State([]byte(state))); err != nil {
		t.Fatal(err)
	}
	want := Content{Base: head, State: state, Head: head}
	j.Close()
	same(t, read(t, open()), want)
	l := load(t, open())
	l.append("d")
	l.Close()
	want.Head, want.Records = l.head, []journal.Record{record(4, "d")}
	if err := open().Begin(t.Context(), head, journal.State([]byte(state))); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("begin where there is something: %v, want ErrConflict", err)
	}
	j = open()
	for range 2 {
		var got Content
		head, err := j.Read(t.Context(), func(head journal.Head, state []byte) error {
			got.Base, got.State = head, string(state)
			return nil
		}, func(r journal.Record) error {
			got.Records = append(got.Records, r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got.Head = head
		same(t, got, want)
	}
	same(t, read(t, open()), want)

	again := place(t)
	load(t, again()).Close() // a journal without events
	if err := again().Begin(t.Context(), head, journal.State([]byte("s"))); err != nil {
		t.Fatal(err)
	}
	same(t, read(t, again()), Content{Base: head, State: "s", Head: head})
}

// Content is what a Load returned and told.
type Content struct {
	Base    journal.Head // zero if there is no snapshot
	State   string
	Records []journal.Record
	Head    journal.Head
}

// Read loads j.
func Read(ctx context.Context, j journal.Journal) (c Content, err error) {
	snapshots := 0
	c.Head, err = j.Load(ctx, func(base journal.Head, state []byte) error {
		if snapshots++; snapshots > 1 || len(c.Records) > 0 {
			return errors.New("a snapshot that is not first or not alone")
		}
		c.Base, c.State = base, string(state)
		return nil
	}, func(record journal.Record) error {
		c.Records = append(c.Records, record)
		return nil
	})
	return c, err
}

// loaded is a journal that the test believes to be at head.
type loaded struct {
	journal.Journal
	t    testing.TB
	head journal.Head
}

func load(t testing.TB, j journal.Journal) *loaded {
	t.Helper()
	return &loaded{j, t, read(t, j).Head}
}

func read(t testing.TB, j journal.Journal) Content {
	t.Helper()
	content, err := Read(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (l *loaded) append(events ...string) journal.Head {
	l.t.Helper()
	head, err := l.Append(l.t.Context(), l.head, batch(events...))
	if err != nil {
		l.t.Fatal(err)
	}
	if want := Next(l.head, batch(events...)); head != want {
		l.t.Fatalf("append returned %v, want %v", head, want)
	}
	l.head = head
	return head
}

func (l *loaded) snapshot(head journal.Head, state string) {
	l.t.Helper()
	if err := l.Snapshot(l.t.Context(), head, journal.State([]byte(state))); err != nil {
		l.t.Fatal(err)
	}
}

// Next returns the head after events.
func Next(head journal.Head, events [][]byte) journal.Head {
	encoded, err := journal.Encode(nil, events)
	if err != nil {
		panic(err)
	}
	return head.Next(len(events), encoded)
}

func batch(events ...string) (batch [][]byte) {
	for _, event := range events {
		batch = append(batch, []byte(event))
	}
	return batch
}

func record(revision uint64, events ...string) journal.Record {
	return journal.Record{Revision: revision, Events: batch(events...)}
}

func same(t interface {
	Helper()
	Fatalf(string, ...any)
}, got, want Content) {
	t.Helper()
	if !reflect.DeepEqual(got, want) { // which is faster than cmp by far
		t.Fatalf("loaded (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func newIsEmpty(t *testing.T, open func() journal.Journal) {
	j := open()
	first := read(t, j)
	if first.Head.Lineage == "" || first.Head.Revision != 0 || first.State != "" || first.Records != nil {
		t.Errorf("a new journal holds %+v", first)
	}
	same(t, read(t, j), first)
	same(t, read(t, open()), first)
}

func loadComesFirst(t *testing.T, open func() journal.Journal) {
	head := read(t, open()).Head
	j := open()
	refuse := func(when string) {
		if _, err := j.Append(t.Context(), head, batch("a")); !errors.Is(err, journal.ErrNotLoaded) {
			t.Errorf("append %s: %v, want ErrNotLoaded", when, err)
		}
		if err := j.Snapshot(t.Context(), head, journal.State([]byte("s"))); !errors.Is(err, journal.ErrNotLoaded) {
			t.Errorf("snapshot %s: %v, want ErrNotLoaded", when, err)
		}
		if _, err := j.NewLineage(t.Context(), head); !errors.Is(err, journal.ErrNotLoaded) {
			t.Errorf("new lineage %s: %v, want ErrNotLoaded", when, err)
		}
	}
	j.Close()
	refuse("before load")
	load(t, j).append("a")
	for range 2 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		refuse("after close")
	}
	same(t, read(t, j), Content{Head: Next(head, batch("a")), Records: []journal.Record{record(1, "a")}})
}

func appendIsReplayed(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	j.append("a")
	j.append("b", "c", "d")
	j.append("\x00")
	want := Content{Head: j.head, Records: []journal.Record{record(1, "a"), record(4, "b", "c", "d"), record(5, "\x00")}}
	same(t, read(t, j), want)
	j.append("e") // a Load in between takes nothing away
	want.Head, want.Records = j.head, append(want.Records, record(6, "e"))
	same(t, read(t, open()), want)
	j = load(t, open())
	j.append("f", "g")
	j.Close()
	want.Head, want.Records = j.head, append(want.Records, record(8, "f", "g"))
	same(t, read(t, open()), want)
}

func appendIsConditional(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	empty := j.head
	first := j.append("a")
	j.append("b")
	otherLineage, otherHash, later := j.head, j.head, Next(j.head, batch("c"))
	otherLineage.Lineage += "x"
	otherHash.Hash[31] ^= 1
	for name, after := range map[string]journal.Head{
		"an older head": first, "the empty journal": empty, "no head": {}, "a later head": later,
		"another lineage": otherLineage, "another hash": otherHash,
	} {
		if _, err := j.Append(t.Context(), after, batch("x")); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("append after %s: %v, want ErrConflict", name, err)
		}
		if _, err := j.NewLineage(t.Context(), after); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("new lineage after %s: %v, want ErrConflict", name, err)
		}
	}
	j.append("c")
	same(t, read(t, open()), Content{Head: later,
		Records: []journal.Record{record(1, "a"), record(2, "b"), record(3, "c")}})
}

func invalidInput(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	j.append("a")
	for name, events := range map[string][][]byte{
		"no events": {}, "an empty event": batch("b", ""), "too much": {make([]byte, journal.MaxBatch)},
	} {
		if _, err := j.Append(t.Context(), j.head, events); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("append %s: %v, want ErrInvalid", name, err)
		}
	}
	if err := j.Snapshot(t.Context(), j.head, journal.State(nil)); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("empty snapshot: %v, want ErrInvalid", err)
	}
	j.append("b")
	same(t, read(t, open()), Content{Head: j.head, Records: []journal.Record{record(1, "a"), record(2, "b")}})
}

func endedContext(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := j.Append(ended, j.head, batch("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v, want context.Canceled", err)
	}
	if err := j.Snapshot(ended, j.head, journal.State([]byte("s"))); !errors.Is(err, context.Canceled) {
		t.Errorf("snapshot: %v, want context.Canceled", err)
	}
	j.append("b")
	same(t, read(t, open()), Content{Head: j.head, Records: []journal.Record{record(1, "b")}})
}

func memoryIsCopied(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	event, state := []byte("event"), []byte("state")
	first, err := j.Append(t.Context(), j.head, [][]byte{event})
	if err != nil {
		t.Fatal(err)
	}
	j.snapshot(first, "other")
	if err := j.Snapshot(t.Context(), first, journal.State(state)); err != nil {
		t.Fatal(err)
	}
	second, err := j.Append(t.Context(), first, [][]byte{event})
	if err != nil {
		t.Fatal(err)
	}
	copy(event, "EVENT")
	copy(state, "STATE")
	want := Content{Base: first, State: "state", Head: second, Records: []journal.Record{record(2, "event")}}
	same(t, read(t, j), want)
	same(t, read(t, open()), want)
}

func snapshotReplaces(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	j.append("a", "b")
	three := j.append("c")
	four := j.append("d")
	j.snapshot(three, "abc") // an earlier head
	want := Content{Base: three, State: "abc", Records: []journal.Record{record(4, "d")}, Head: four}
	same(t, read(t, j), want)
	j.append("e")
	want.Head, want.Records = j.head, append(want.Records, record(5, "e"))
	same(t, read(t, open()), want)

	j = load(t, open())
	big := string(bytes.Repeat([]byte("0123456789abcdef"), 50_000))
	j.snapshot(j.head, big) // the head
	want = Content{Base: j.head, State: big, Head: j.head}
	same(t, read(t, open()), want)

	j = load(t, open())
	j.snapshot(j.head, "the same, said otherwise")
	j.append("f")
	want.State, want.Head, want.Records = "the same, said otherwise", j.head, []journal.Record{record(6, "f")}
	same(t, read(t, open()), want)
}

func snapshotIsConditional(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	empty := j.head
	first := j.append("a")
	three := j.append("b", "c")
	j.append("d")
	j.snapshot(three, "abc")
	within := three
	within.Revision = 2
	otherLineage, otherHash, later := j.head, j.head, Next(j.head, batch("e"))
	otherLineage.Lineage += "x"
	otherHash.Hash[0] ^= 1
	for name, head := range map[string]journal.Head{
		"the empty journal": empty, "older than the snapshot": first, "within a batch": within, "no head": {},
		"a later head": later, "another lineage": otherLineage, "another hash": otherHash,
	} {
		if err := j.Snapshot(t.Context(), head, journal.State([]byte("x"))); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("snapshot at %s: %v, want ErrConflict", name, err)
		}
	}
	same(t, read(t, open()), Content{Base: three, State: "abc", Records: []journal.Record{record(4, "d")}, Head: j.head})
}

func lineageContinues(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	first := j.append("a")
	j.snapshot(first, "a")
	before := j.append("b")
	renewed, err := j.NewLineage(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	if renewed.Lineage == before.Lineage || renewed.Revision != before.Revision {
		t.Fatalf("new lineage after %v: %v", before, renewed)
	}
	if _, err := j.Append(t.Context(), before, batch("x")); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("append after the head of the old lineage: %v, want ErrConflict", err)
	}
	if err := j.Snapshot(t.Context(), before, journal.State([]byte("x"))); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("snapshot at the head of the old lineage: %v, want ErrConflict", err)
	}
	want := Content{Base: first, State: "a", Records: []journal.Record{record(2, "b")}, Head: renewed}
	want.Base.Lineage = renewed.Lineage
	same(t, read(t, open()), want)
	j = load(t, open())
	j.append("c")
	want.Head, want.Records = j.head, append(want.Records, record(3, "c"))
	same(t, read(t, open()), want)
}

func callbackErrors(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	j.snapshot(j.append("a"), "a")
	j.append("b")
	fine, wrong := func(journal.Head, []byte) error { return nil }, errors.New("wrong")
	if _, err := j.Load(t.Context(), func(journal.Head, []byte) error { return wrong }, nil); !errors.Is(err, wrong) {
		t.Errorf("load: %v, want the snapshot callback's error", err)
	}
	if _, err := j.Load(t.Context(), fine, func(journal.Record) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("load: %v, want the record callback's error", err)
	}
	load(t, j).append("c")
}

func bigEvents(t *testing.T, open func() journal.Journal) {
	j := load(t, open())
	var records []journal.Record
	for i := range 4 {
		event := fmt.Sprint(i, string(bytes.Repeat([]byte{byte(i)}, 100_000)))
		j.append("small", event)
		records = append(records, record(j.head.Revision, "small", event))
	}
	same(t, read(t, open()), Content{Head: j.head, Records: records})
}

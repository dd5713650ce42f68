package journaltest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/internal/journal"
)

// anyHistory compares random histories with a model that keeps everything.
func anyHistory(t *testing.T, place func(testing.TB) func() journal.Journal) {
	rapid.Check(t, func(r *rapid.T) {
		m := &model{open: place(t)}
		m.reopen(r)
		r.Repeat(map[string]func(*rapid.T){
			"append":   m.append,
			"stale":    m.stale,
			"snapshot": m.snapshot,
			"lineage":  m.lineage,
			"reopen":   m.reopen,
			"reload":   m.reload,
		})
		m.reopen(r)
		m.journal.Close()
	})
}

type model struct {
	open    func() journal.Journal
	journal journal.Journal
	want    Content
	heads   []journal.Head // a snapshot may be taken at: the base's, then each record's
}

func (m *model) reopen(r *rapid.T) {
	if m.journal != nil && rapid.Bool().Draw(r, "close") {
		m.journal.Close()
	}
	m.journal = m.open()
	m.reload(r)
}

func (m *model) reload(r *rapid.T) {
	got, err := Read(r.Context(), m.journal)
	if err != nil {
		r.Fatal(err)
	}
	if m.heads == nil {
		m.want.Head, m.heads = got.Head, []journal.Head{got.Head}
	}
	same(r, got, m.want)
}

var events = rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 300), 1, 5)

func (m *model) append(r *rapid.T) {
	batch := events.Draw(r, "events")
	head, err := m.journal.Append(r.Context(), m.want.Head, batch)
	if err != nil || head != Next(m.want.Head, batch) {
		r.Fatalf("append after %v: %v, %v", m.want.Head, head, err)
	}
	m.want.Head = head
	m.want.Records = append(m.want.Records, journal.Record{Revision: head.Revision, Events: batch})
	m.heads = append(m.heads, head)
}

func (m *model) stale(r *rapid.T) {
	after := rapid.SampledFrom(m.heads).Draw(r, "after")
	if after == m.want.Head {
		r.Skip("not stale")
	}
	if _, err := m.journal.Append(r.Context(), after, events.Draw(r, "events")); err == nil {
		r.Fatalf("append after %v was done at %v", after, m.want.Head)
	}
}

func (m *model) snapshot(r *rapid.T) {
	n := rapid.IntRange(0, len(m.heads)-1).Draw(r, "records replaced")
	state := rapid.SliceOfN(rapid.Byte(), 1, 2000).Draw(r, "state")
	if err := m.journal.Snapshot(r.Context(), m.heads[n], journal.State(state)); err != nil {
		r.Fatal(err)
	}
	m.want.Base, m.want.State = m.heads[n], string(state)
	m.heads = m.heads[n:]
	m.want.Records = append([]journal.Record(nil), m.want.Records[n:]...)
}

func (m *model) lineage(r *rapid.T) {
	head, err := m.journal.NewLineage(r.Context(), m.want.Head)
	if err != nil {
		r.Fatal(err)
	}
	for i := range m.heads {
		m.heads[i].Lineage = head.Lineage
	}
	if m.want.State != "" {
		m.want.Base = m.heads[0]
	}
	m.want.Head = m.heads[len(m.heads)-1]
	if head != m.want.Head {
		r.Fatalf("new lineage: %v, want %v", head, m.want.Head)
	}
}

package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
)

// BenchmarkAppend appends batches of events of 200 bytes, each batch durable before the next. What
// remains of ns/op besides CPU is the disk's fsync.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			j := New(filepath.Join(b.TempDir(), "j"))
			defer j.Close()
			content, err := journaltest.Read(b.Context(), j)
			if err != nil {
				b.Fatal(err)
			}
			events := make([][]byte, size)
			for i := range events {
				events[i] = make([]byte, 200)
			}
			head := content.Head
			b.ReportAllocs()
			for b.Loop() {
				if head, err = j.Append(b.Context(), head, events); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(head.Revision)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkLoad verifies and replays 100,000 events of 200 bytes after a snapshot of 32 MiB.
func BenchmarkLoad(b *testing.B) {
	j := New(filepath.Join(b.TempDir(), "j"))
	defer j.Close()
	content, err := journaltest.Read(b.Context(), j)
	if err != nil {
		b.Fatal(err)
	}
	head := content.Head
	if err := j.Snapshot(b.Context(), head, journal.State(make([]byte, 32<<20))); err != nil {
		b.Fatal(err)
	}
	events := make([][]byte, 50)
	for i := range events {
		events[i] = make([]byte, 200)
	}
	for head.Revision < 100_000 {
		if head, err = j.Append(b.Context(), head, events); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		_, err := j.Load(b.Context(), func(journal.Head, []byte) error { return nil },
			func(journal.Record) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
}

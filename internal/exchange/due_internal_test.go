package exchange

import "testing"

// A journal without a bound is compacted when the events since its snapshot take four times as
// much, within bounds; after a snapshot that was not stored, later.
func TestWhenAJournalIsCompacted(t *testing.T) {
	const MiB = 1 << 20
	for _, c := range []struct {
		tail
		from int64 // from so many bytes of events on
	}{
		{tail{}, 64 * MiB},
		{tail{snapshot: 10 * MiB}, 64 * MiB},
		{tail{snapshot: 100 * MiB}, 400 * MiB},
		{tail{snapshot: 500 * MiB}, 512 * MiB},
		{tail{snapshot: 3000 * MiB}, 750 * MiB},
		{tail{snapshot: 10 * MiB, retry: 130 * MiB}, 130 * MiB},
	} {
		at, before := c.tail, c.tail
		at.bytes, before.bytes = c.from, c.from-1
		if !at.due() || before.due() {
			t.Errorf("%+v is compacted from %d bytes on: %v, and before: %v", c.tail, c.from, at.due(), before.due())
		}
	}
}

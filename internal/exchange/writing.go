package exchange

import (
	"cmp"
	"context"
	"time"

	"github.com/bourse-dev/bourse/internal/market"
)

// newWriting expects an event for each order.
func newWriting(orders int, buffer []byte) *writing {
	return &writing{events: make([]market.Event, 0, orders), data: make([][]byte, 0, orders), buffer: buffer[:0]}
}

// writing is a batch of events on its way into the journal.
type writing struct {
	events []market.Event
	data   [][]byte // each of them encoded, in buffer
	buffer []byte
	err    error
}

func (w *writing) add(e market.Event) {
	before, err := len(w.buffer), error(nil)
	w.buffer, err = e.Append(w.buffer)
	w.err = cmp.Or(w.err, err)
	w.events = append(w.events, e)
	w.data = append(w.data, w.buffer[before:len(w.buffer):len(w.buffer)])
}

func (x *Exchange) append(ctx context.Context, w *writing) error {
	if len(w.events) == 0 || w.err != nil {
		return w.err
	}
	if cap(w.buffer) <= 2*maxAppend {
		x.buffer = w.buffer // a journal keeps nothing of it
	}
	start := time.Now()
	head, err := x.journal.Append(ctx, x.head, w.data)
	x.stats.appended(len(w.events), time.Since(start), err)
	if err != nil {
		return err
	}
	x.head = head
	return nil
}

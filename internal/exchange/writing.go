package exchange

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

func newWriting(tasks int, buffer []byte) *writing {
	return &writing{events: make([]market.Event, 0, tasks), data: make([][]byte, 0, tasks), buffer: buffer[:0]}
}

// writing is a batch of events for the journal.
type writing struct {
	events []market.Event
	data   [][]byte // each of them encoded, in buffer
	buffer []byte
}

// add encodes events, which may have most bytes together. After an error the batch is as before.
// Errors: TooLarge; that of the encoder.
func (w *writing) add(events []market.Event, most int) (err error) {
	before, known := len(w.buffer), len(w.data)
	for _, e := range events {
		begin := len(w.buffer)
		if w.buffer, err = e.Append(w.buffer); err == nil && len(w.buffer)-before > most {
			err = tooLarge("its %d events take more than %d bytes", len(events), most)
		}
		if err != nil {
			w.buffer, w.data = w.buffer[:before], w.data[:known]
			return err
		}
		w.data = append(w.data, w.buffer[begin:len(w.buffer):len(w.buffer)])
	}
	w.events = append(w.events, events...)
	return nil
}

func tooLarge(format string, args ...any) error {
	return api.Errorf(api.CodeTooLarge, "the journal cannot keep it: "+format, args...).Fix("ask for less at a time")
}

func (x *Exchange) append(ctx context.Context, w *writing) error {
	if len(w.events) == 0 {
		return nil
	}
	if cap(w.buffer) <= 2*x.options.AppendBytes {
		x.buffer = w.buffer // a journal keeps nothing of it
	}
	x.stats.begin()
	start := time.Now()
	head, err := x.journal.Append(ctx, x.head, w.data)
	x.stats.appended(len(w.events), time.Since(start), err)
	if err != nil {
		return err
	}
	x.head, x.appendBytes, x.full = head, min(2*x.appendBytes, x.options.AppendBytes), fullness{}
	x.tail.bytes += int64(len(w.buffer))
	return nil
}

package server

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// eventWriter writes the events of a watch as lines of JSON, until its context ends.
type eventWriter struct {
	ctx     context.Context
	answer  http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// newEventWriter starts the answer.
func newEventWriter(ctx context.Context, answer http.ResponseWriter, stall time.Duration) eventWriter {
	answer.Header().Set("Content-Type", "application/x-ndjson")
	answer.WriteHeader(http.StatusOK)
	return eventWriter{ctx, answer, http.NewResponseController(answer), stall}
}

var buffersOfEvents = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// mostHeld is the approximate number of bytes of events that are encoded before they are written. It
// bounds the memory for a reader.
const mostHeld = 64 << 10

// events collects the events of one send. After an error it takes no more.
type events struct {
	to     eventWriter
	buffer *bytes.Buffer
	err    error
}

// send writes the events that fill adds: at once if they are few.
func (w eventWriter) send(fill func(*events)) error {
	b := buffersOfEvents.Get().(*bytes.Buffer)
	defer buffersOfEvents.Put(b)
	b.Reset()
	e := &events{to: w, buffer: b}
	fill(e)
	e.flush(0)
	return e.err
}

// add adds an event.
func (e *events) add(event api.WatchEvent) {
	if e.err == nil {
		e.err = payload.Answer(e.buffer, event)
	}
	e.flush(mostHeld)
}

// flush writes the collected events, if there are more bytes than most.
func (e *events) flush(most int) {
	if e.err == nil && e.buffer.Len() > most {
		e.err = e.to.put(e.buffer.Bytes())
		e.buffer.Reset()
	}
}

// put writes in pieces. The reader may take stall for each. It writes no piece after the context has ended.
func (w eventWriter) put(data []byte) error {
	for len(data) > 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.control.SetWriteDeadline(time.Now().Add(w.stall)); err != nil {
			return err
		}
		n, err := w.answer.Write(data[:min(len(data), pieceSize)])
		if err != nil {
			return err
		}
		data = data[n:]
	}
	if err := w.control.Flush(); err != nil {
		return err
	}
	return w.control.SetWriteDeadline(time.Time{}) // HTTP/2 would end an idle stream at its deadline
}

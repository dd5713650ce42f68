package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// eventWriter sends the events of a watch: as lines of JSON, in an answer that goes on until its context ends.
type eventWriter struct {
	ctx     context.Context
	answer  http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration
}

// newEventWriter begins the answer.
func newEventWriter(ctx context.Context, answer http.ResponseWriter, slow time.Duration) eventWriter {
	answer.Header().Set("Content-Type", "application/x-ndjson")
	answer.WriteHeader(http.StatusOK)
	return eventWriter{ctx, answer, http.NewResponseController(answer), slow}
}

var buffersOfEvents = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// mostHeld is about how many bytes of events are encoded before they are written: no more is held of what a reader has yet to read.
const mostHeld = 64 << 10

// events are those that are sent together.
type events struct {
	to eventWriter
	*bytes.Buffer
	*json.Encoder
}

// send sends the events that fill adds: at once if they are few.
func (w eventWriter) send(fill func(*events) error) error {
	b := buffersOfEvents.Get().(*bytes.Buffer)
	defer buffersOfEvents.Put(b)
	b.Reset()
	e := &events{to: w, Buffer: b, Encoder: json.NewEncoder(b)}
	if err := fill(e); err != nil {
		return err
	}
	return e.flush()
}

// add adds one.
func (e *events) add(event api.WatchEvent) error {
	if err := e.Encode(event); err != nil {
		return err
	}
	return e.flushLong()
}

// addLines adds events that are encoded.
func (e *events) addLines(lines []byte) error {
	for len(lines) > 0 {
		n := min(len(lines), mostHeld)
		e.Write(lines[:n])
		if err := e.flushLong(); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (e *events) flushLong() error {
	if e.Len() < mostHeld {
		return nil
	}
	return e.flush()
}

// flush sends what there is.
func (e *events) flush() error {
	if e.Len() == 0 {
		return nil
	}
	defer e.Reset()
	return e.to.put(e.Bytes())
}

// put writes, a piece at a time: the reader may take as long as slow for each. After the context has ended no piece is written.
func (w eventWriter) put(data []byte) error {
	for len(data) > 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.control.SetWriteDeadline(time.Now().Add(w.slow)); err != nil {
			return err
		}
		n, err := w.answer.Write(data[:min(len(data), flow)])
		if err != nil {
			return err
		}
		data = data[n:]
	}
	if err := w.control.Flush(); err != nil {
		return err
	}
	return w.control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, though nothing is being written
}

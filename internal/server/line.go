package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// A watch lasts as long as its reader, and a broker has one for each member. So it takes over its connection, and its call ends: what
// net/http keeps for a call, buffers, headers and the deep stack of its handlers, is more than all that a watch needs.

// lines are the connections of a listener that watches took over.
type lines struct {
	open sync.WaitGroup
	// lasting ends when they must.
	lasting context.Context
}

// line is such a connection. What is sent at a time is a few chunks of the answer's body.
type line struct{ conn net.Conn }

// takeOver answers a call with 200 and a body of NDJSON, which write goes on with until ctx ends: when the reader goes away, the
// listener ends, or at the time until, if it is not zero. Unless there is an error, write is called, and what it sends to who is gone fails.
// Errors: the connection cannot be taken over.
func (s *Server) takeOver(w http.ResponseWriter, r *http.Request, until time.Time, write func(context.Context, line)) error {
	if !r.ProtoAtLeast(1, 1) {
		return api.Invalid("watch", "%s has no chunks to send an answer in that goes on", r.Proto).Fix("use HTTP/1.1")
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("a watch by %s: %w", r.Proto, err)
	}
	ctx, over := context.Background(), func() {}
	if c := connectionOf(r.Context()); c != nil {
		c.lines.open.Add(1)
		ctx, over = c.lines.lasting, c.lines.open.Done
	}
	var cancel context.CancelFunc
	if until.IsZero() {
		ctx, cancel = context.WithCancel(ctx)
	} else { // a certificate that ended ends what it opened
		ctx, cancel = context.WithDeadline(ctx, until)
	}
	go func() { // whoever watches says nothing more: if anything comes, it is the end
		defer cancel()
		_, _ = conn.Read(make([]byte, 1))
	}()
	go func() {
		defer over()
		defer conn.Close()
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				s.Log.Error("a watch panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		l := line{conn}
		_ = l.put([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"))
		write(ctx, l)
		_ = l.put([]byte("0\r\n\r\n"))
	}()
	return nil
}

var chunks = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// perChunk is about how many bytes of events go into one chunk: no more is held of what a reader has yet to read.
const perChunk = 64 << 10

// events are those that are sent together.
type events struct {
	line line
	*bytes.Buffer
	*json.Encoder
}

// send sends the events that fill adds: in one chunk if they are few.
func (l line) send(fill func(*events) error) error {
	b := chunks.Get().(*bytes.Buffer)
	defer chunks.Put(b)
	e := &events{line: l, Buffer: b, Encoder: json.NewEncoder(b)}
	e.begin()
	if err := fill(e); err != nil {
		return err
	}
	return e.flush()
}

// write sends each of the events.
func (l line) write(all []api.WatchEvent) error {
	return l.send(func(events *events) error {
		for _, e := range all {
			if err := events.add(e); err != nil {
				return err
			}
		}
		return nil
	})
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
		n := min(len(lines), perChunk)
		e.Write(lines[:n])
		if err := e.flushLong(); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (e *events) begin() {
	e.Reset()
	e.WriteString(sizeToCome)
}

func (e *events) flushLong() error {
	if e.Len() < perChunk {
		return nil
	}
	return e.flush()
}

// flush sends what there is.
func (e *events) flush() error {
	size := e.Len() - len(sizeToCome)
	if size == 0 {
		return nil
	}
	copy(e.Bytes(), fmt.Appendf(nil, "%08x", size))
	e.WriteString("\r\n")
	defer e.begin()
	return e.line.put(e.Bytes())
}

// sizeToCome is where a chunk's size will stand: eight hexadecimal digits.
const sizeToCome = "        \r\n"

// put writes, a piece at a time: each may take its reader as long as slow.
func (l line) put(data []byte) error {
	for len(data) > 0 {
		if err := l.conn.SetWriteDeadline(time.Now().Add(slow)); err != nil {
			return err
		}
		n, err := l.conn.Write(data[:min(len(data), flow)])
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

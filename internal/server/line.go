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

// line is such a connection. Each write is a chunk of the answer's body.
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
		_ = l.send([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"))
		write(ctx, l)
		_ = l.send([]byte("0\r\n\r\n"))
	}()
	return nil
}

var chunks = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write sends each of the events, all in one chunk.
func (l line) write(events []api.WatchEvent) error {
	if len(events) == 0 {
		return nil
	}
	return l.chunk(func(b *bytes.Buffer) error {
		encoder := json.NewEncoder(b)
		for _, e := range events {
			if err := encoder.Encode(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeLines sends events that are encoded.
func (l line) writeLines(lines []byte) error {
	return l.chunk(func(b *bytes.Buffer) error {
		b.Write(lines)
		return nil
	})
}

func (l line) chunk(fill func(*bytes.Buffer) error) error {
	b := chunks.Get().(*bytes.Buffer)
	defer chunks.Put(b)
	b.Reset()
	b.WriteString(sizeToCome)
	if err := fill(b); err != nil {
		return err
	}
	copy(b.Bytes(), fmt.Appendf(nil, "%08x", b.Len()-len(sizeToCome)))
	b.WriteString("\r\n")
	return l.send(b.Bytes())
}

// sizeToCome is where a chunk's size will stand: eight hexadecimal digits.
const sizeToCome = "        \r\n"

func (l line) send(data []byte) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(slow)); err != nil {
		return err
	}
	_, err := l.conn.Write(data)
	return err
}

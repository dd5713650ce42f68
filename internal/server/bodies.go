package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
)

const (
	// maxLargeBody bounds a body of the operations whose bodies may be large, in bytes.
	maxLargeBody = 8 << 20
	// littleMemory is what a body may take once it is decoded without waiting for others, by estimate. It is the bound for the bodies of at
	// most 64 KiB that all other operations have.
	littleMemory = 2 << 20
	// bodyMemory is what all bodies that are in hand may take together, by estimate, unless Options say otherwise.
	bodyMemory = 128 << 20
)

// large lets an operation have large bodies. Bodies are decoded without a type before they are validated, so that a few bytes can become
// hundreds: how much memory each takes is estimated as it is read, and all callers together have one bound.
func (s *Server) large(o *huma.Operation) {
	o.MaxBodyBytes = maxLargeBody
	o.Middlewares = append(o.Middlewares, func(c huma.Context, next func(huma.Context)) {
		if r, _ := humago.Unwrap(c); r.ContentLength >= 0 && r.ContentLength <= largeBody {
			next(c) // as one of any other operation: checkShape bounds it
			return
		}
		b := &meteredBody{s: s, call: c, body: c.BodyReader()}
		defer b.let()
		next(withBody{c, b})
	})
}

// humaContext is embedded where a field Context would hide the method.
type humaContext = huma.Context

// withBody is a call with another reader of its body.
type withBody struct {
	humaContext
	body io.Reader
}

// BodyReader implements huma.Context.
func (c withBody) BodyReader() io.Reader { return c.body }

// meteredBody estimates a body as it is read. When all of it was read, it waits until there is memory for it.
type meteredBody struct {
	s     *Server
	call  huma.Context
	body  io.Reader
	meter decoded.Meter
	taken int64
}

// Read implements io.Reader. Errors: TooLarge, TooManyRequests.
func (b *meteredBody) Read(into []byte) (int, error) {
	n, err := b.body.Read(into)
	b.meter.Read(into[:n])
	if most := b.s.BodyMemory; b.meter.Cost > most {
		_, _ = io.Copy(io.Discard, io.LimitReader(b.body, maxLargeBody)) // a caller that still sends hears no answer
		refused("body_memory")
		return 0, api.Errorf(api.CodeTooLarge, "the body would take more than %d bytes of memory once decoded", most).At("body").
			Fix("send fewer values at once")
	}
	if errors.Is(err, io.EOF) && b.meter.Cost > littleMemory && b.taken == 0 {
		if wait := b.take(); wait != nil {
			return 0, wait
		}
	}
	return n, err
}

// take waits for the memory that the body takes. Errors: TooManyRequests.
func (b *meteredBody) take() error {
	ctx, cancel := context.WithTimeout(b.call.Context(), b.s.Bounds.orDefault().Patience)
	defer cancel()
	if err := b.s.bodies.Acquire(ctx, b.meter.Cost); err != nil {
		refused("body_memory")
		b.call.SetHeader("Retry-After", "1")
		return api.Errorf(api.CodeTooManyRequests, "large bodies of other callers take all the memory that is for them: %d bytes", b.s.BodyMemory).
			Fix("send it again later")
	}
	b.taken = b.meter.Cost
	return nil
}

// let gives the memory back.
func (b *meteredBody) let() { b.s.bodies.Release(b.taken) }

// checkShape refuses JSON that nests deeper than maxDepth, and small bodies that would take much memory, before anything is built from it.
// The error says which.
func checkShape(data []byte) error {
	if cost, depth := decoded.AtMost(data); cost <= littleMemory && depth <= maxDepth && bytes.IndexByte(data, 0) < 0 {
		return nil
	}
	var m decoded.Meter
	m.Read(data)
	switch {
	case m.Depth > maxDepth:
		return errDeep
	case m.Null:
		return errNUL
	case len(data) <= largeBody && m.Cost > littleMemory: // what is longer was bounded as it was read
		return errRich
	}
	return nil
}

// flowing serves calls whose bodies come slowly as long as they come, and ends those that do not come.
func flowing(h http.Handler, b Bounds) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if control, ok := w.(deadline); ok && r.ContentLength != 0 {
			body := &flowingBody{ReadCloser: r.Body, control: control, until: time.Now().Add(b.Slow)}
			_ = body.control.SetReadDeadline(body.until) // also of what nobody reads: net/http does
			with := *r
			with.Body = body
			r = &with
		}
		h.ServeHTTP(w, r)
	})
}

// deadline is what net/http's answers have: until when to read what was sent.
type deadline interface{ SetReadDeadline(time.Time) error }

// flowingBody is a body that has to come.
type flowingBody struct {
	io.ReadCloser
	control deadline
	until   time.Time
}

// Read implements io.Reader.
func (b *flowingBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		refused("slow_bodies")
	} else if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // the connection stays, and net/http listens whether the caller goes
	} else if n > 0 {
		b.until = b.until.Add(time.Duration(n) * time.Second / flow)
		_ = b.control.SetReadDeadline(b.until)
	}
	return n, err
}

// ownDeadlines is a call to which the REST framework sets no deadline: those of [flowing] hold.
type ownDeadlines struct{ humaContext }

// SetReadDeadline implements huma.Context.
func (ownDeadlines) SetReadDeadline(time.Time) error { return nil }

// Unwrap returns the call itself.
func (c ownDeadlines) Unwrap() huma.Context { return c.humaContext }

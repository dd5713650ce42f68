package server

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	// smallBodyMemory is the estimated memory, in bytes, that a decoded body may take without waiting. It
	// bounds the bodies of all operations that allow at most 64 KiB.
	smallBodyMemory = 2 << 20
	// bodyMemory is the default of Options.BodyMemory, in bytes.
	bodyMemory = 128 << 20
)

// allowLargeBody lets an operation have large bodies. The REST framework decodes a body without a type
// before it validates it, so that a few bytes can become hundreds. The memory of each body is estimated as
// it is read, and all callers together have one bound.
func (s *Server) allowLargeBody(o *huma.Operation) {
	o.MaxBodyBytes = maxLargeBody
	o.Middlewares = append(o.Middlewares, func(c huma.Context, next func(huma.Context)) {
		if r, _ := humago.Unwrap(c); r.ContentLength >= 0 && r.ContentLength <= largeBody {
			next(c) // checkShape bounds it, as for any other operation
			return
		}
		b := &meteredBody{s: s, call: c, body: c.BodyReader()}
		defer b.release()
		next(withBody{c, b})
	})
}

// humaContext is embedded where a field Context would hide the method.
type humaContext = huma.Context

// withBody replaces the reader of a call's body.
type withBody struct {
	humaContext
	body io.Reader
}

// BodyReader implements huma.Context.
func (c withBody) BodyReader() io.Reader { return c.body }

// meteredBody estimates the memory of a body as it is read. At the end it waits until that is free.
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
		_, _ = io.Copy(io.Discard, io.LimitReader(b.body, maxLargeBody)) // a caller that still sends reads no answer
		refused("body_memory")
		return 0, api.Errorf(api.CodeTooLarge, "the body would take more than %d bytes of memory once decoded", most).
			At("body").Fix("send fewer values at once")
	}
	if errors.Is(err, io.EOF) && b.meter.Cost > smallBodyMemory && b.taken == 0 {
		if wait := b.acquire(); wait != nil {
			return 0, wait
		}
	}
	return n, err
}

// acquire waits for the memory that the body takes. Errors: TooManyRequests.
func (b *meteredBody) acquire() error {
	ctx, cancel := context.WithTimeout(b.call.Context(), b.s.Bounds.orDefault().Patience)
	defer cancel()
	if err := b.s.bodies.Acquire(ctx, b.meter.Cost); err != nil {
		refused("body_memory")
		b.call.SetHeader("Retry-After", "1")
		return api.Errorf(api.CodeTooManyRequests,
			"large bodies of other callers use all memory for large bodies: %d bytes", b.s.BodyMemory).
			Fix("send it again later")
	}
	b.taken = b.meter.Cost
	return nil
}

// release frees the memory of the body.
func (b *meteredBody) release() { b.s.bodies.Release(b.taken) }

// checkShape rejects JSON that nests deeper than maxDepth or contains a NUL byte, and small bodies that
// would take much memory, before it is decoded.
func checkShape(data []byte) error {
	if cost, depth := decoded.AtMost(data); cost <= smallBodyMemory && depth <= maxDepth && bytes.IndexByte(data, 0) < 0 {
		return nil
	}
	var m decoded.Meter
	m.Read(data)
	switch {
	case m.Depth > maxDepth:
		return errDeep
	case m.Null:
		return errNUL
	case len(data) <= largeBody && m.Cost > smallBodyMemory: // a longer one was bounded as it was read
		return errRich
	}
	return nil
}

// endSlowBodies ends calls whose bodies stop coming. A slow body may take as long as it keeps coming.
func endSlowBodies(h http.Handler, b Bounds) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if control, ok := w.(deadline); ok && r.ContentLength != 0 {
			body := &timedBody{ReadCloser: r.Body, control: control, until: time.Now().Add(b.Stall)}
			_ = body.control.SetReadDeadline(body.until) // also if no handler reads it: net/http does
			with := *r
			with.Body = body
			r = &with
		}
		h.ServeHTTP(w, r)
	})
}

// endSlowAnswers ends calls whose answers are not read in time.
func endSlowAnswers(h http.Handler, b Bounds) http.Handler {
	if b.Answer == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connOf(r.Context()).answerBy.Store(new(time.Now().Add(b.Answer)))
		h.ServeHTTP(w, r) // what net/http writes after it has the same time
	})
}

// deadline is implemented by net/http's answers.
type deadline interface{ SetReadDeadline(time.Time) error }

// timedBody moves the read deadline forward as bytes come.
type timedBody struct {
	io.ReadCloser
	control deadline
	until   time.Time
}

// Read implements io.Reader.
func (b *timedBody) Read(into []byte) (int, error) {
	_ = b.control.SetReadDeadline(b.until)
	n, err := b.ReadCloser.Read(into)
	switch {
	case isTimeout(err):
		refused("slow_bodies")
	case errors.Is(err, io.EOF): // the connection stays open, and net/http waits for its end
		b.until = time.Time{}
		_ = b.control.SetReadDeadline(b.until)
	default:
		b.until = b.until.Add(time.Duration(n) * time.Second / pieceSize)
	}
	return n, err
}

package kubeapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"syscall"
)

// transport carries a client's requests to the server within the process.
type transport struct{ api *API }

// RoundTrip answers as soon as the server has finished, or has begun to
// stream. One goroutine serves the request; it ends when the request's context
// does or the body is closed.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.api.mu.Lock()
	down := t.api.down
	t.api.mu.Unlock()
	if down {
		closeBody(r)
		return nil, fmt.Errorf("dial simulated server: %w", syscall.ECONNREFUSED)
	}
	ctx, cancel := context.WithCancel(r.Context())
	e := &exchange{ctx: ctx, cancel: cancel, header: http.Header{}, code: http.StatusOK, answered: make(chan struct{})}
	go func() {
		defer cancel()
		defer closeBody(r)
		defer e.finish()
		t.api.serve(e, r.WithContext(ctx))
	}()
	select {
	case <-e.answered:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if e.lost {
		return nil, fmt.Errorf("read from simulated server: %w", syscall.ECONNRESET)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)), StatusCode: e.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.header, Body: e, ContentLength: -1, Request: r,
	}, nil
}

// exchange is a response on its way: the server writes, the client reads. Up
// to the first Flush it is kept; from then on it is a stream, which makes the
// server wait for its reader as a socket would.
type exchange struct {
	ctx      context.Context // over when either side is done
	cancel   context.CancelFunc
	header   http.Header
	code     int
	answered chan struct{} // closed when the client may look
	lost     bool          // the connection broke before that

	kept   bytes.Buffer   // written and not yet handed over
	reader *io.PipeReader // nil until the first Flush
	writer *io.PipeWriter
}

func (e *exchange) Header() http.Header  { return e.header }
func (e *exchange) WriteHeader(code int) { e.code = code }

func (e *exchange) Write(p []byte) (int, error) {
	n, err := e.kept.Write(p)
	if e.writer != nil && e.kept.Len() > 1<<16 {
		e.Flush()
	}
	return n, err
}

// Flush hands over what was written since the last one.
func (e *exchange) Flush() {
	if e.writer == nil {
		e.reader, e.writer = io.Pipe()
		writer := e.writer
		context.AfterFunc(e.ctx, func() { _ = writer.CloseWithError(e.ctx.Err()) })
		close(e.answered)
	}
	if e.kept.Len() > 0 {
		_, _ = e.kept.WriteTo(e.writer) // fails when the client is gone, which ctx says too
		e.kept.Reset()
	}
}

// finish ends the response, and turns an aborted one into a broken connection.
func (e *exchange) finish() {
	aborted := recover()
	if aborted != nil && aborted != http.ErrAbortHandler {
		panic(aborted)
	}
	switch {
	case e.writer == nil:
		e.lost = aborted != nil
		close(e.answered)
	case aborted != nil:
		_ = e.writer.CloseWithError(io.ErrUnexpectedEOF)
	default:
		e.Flush()
		_ = e.writer.Close()
	}
}

func (e *exchange) Read(p []byte) (int, error) {
	if e.reader != nil {
		return e.reader.Read(p)
	}
	return e.kept.Read(p)
}

// Close is the client's: it wants no more.
func (e *exchange) Close() error {
	e.cancel()
	return nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

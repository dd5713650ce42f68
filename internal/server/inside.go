package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Inside makes a handler answer a call in memory. A call without a body gets an empty one.
func Inside(h http.Handler, call *http.Request) *http.Response {
	if call.Body == nil {
		call.Body = http.NoBody
	}
	call.RequestURI = call.URL.RequestURI()
	w := &written{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, call)
	return &http.Response{
		StatusCode: w.status, Status: fmt.Sprintf("%d %s", w.status,
			http.StatusText(w.status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: call,
	}
}

// written is such an answer.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header                  { return w.header }
func (w *written) WriteHeader(status int)               { w.status = status }
func (w *written) Write(data []byte) (n int, err error) { return w.body.Write(data) }

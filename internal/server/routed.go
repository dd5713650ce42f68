package server

import (
	"net/http"
	"path"

	"github.com/bourse-dev/bourse/api"
)

// maxHeader bounds the headers of a call, in bytes. Beyond maxWire nothing is read at all.
const (
	maxHeader = 16 << 10
	maxWire   = 64 << 10
)

// routed serves what there is a route for. Everything else gets a problem, too, where a mux would answer
// in its own words, or redirect.
func routed(mux *http.ServeMux) http.Handler {
	mux.HandleFunc("/", noRoute)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case headerSize(r.Header) > maxHeader:
			Refuse(w, api.Errorf(api.CodeTooLarge, "the headers take more than %d bytes", maxHeader).Fix("send fewer"))
		case path.Clean("/"+r.URL.Path) != r.URL.Path:
			noRoute(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func noRoute(w http.ResponseWriter, r *http.Request) {
	Refuse(w, api.Errorf(api.CodeNotFound, "there is no %.20s %.120q here", r.Method, r.URL.Path).Fix("what there is: /openapi.yaml"))
}

func headerSize(h http.Header) int {
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

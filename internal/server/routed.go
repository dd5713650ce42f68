package server

import (
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// maxHeader bounds the headers of a call, in bytes. Beyond maxWire nothing is read.
const (
	maxHeader = 16 << 10
	maxWire   = 64 << 10
)

// routed serves the existing routes. It answers everything else with a problem, where a mux would use its
// own text or redirect.
func routed(mux *http.ServeMux) http.Handler {
	mux.HandleFunc("/", noRoute)
	describe := sync.OnceFunc(func() { // the REST framework makes these at the first call, without a lock
		for _, document := range []string{"/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml"} {
			if call, err := http.NewRequest(http.MethodGet, document, nil); err == nil {
				_ = Inside(mux, call).Body.Close()
			}
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case headerSize(r.Header) > maxHeader:
			Refuse(w, r, api.Errorf(api.CodeTooLarge, "the headers take more than %d bytes", maxHeader).Fix("send fewer"))
		case path.Clean("/"+r.URL.Path) != r.URL.Path:
			noRoute(w, r)
		default:
			if strings.HasPrefix(r.URL.Path, "/openapi") {
				describe()
			}
			mux.ServeHTTP(w, r)
		}
	})
}

func noRoute(w http.ResponseWriter, r *http.Request) {
	Refuse(w, r, api.Errorf(api.CodeNotFound, "there is no %.20s %.120q here", r.Method, r.URL.Path).
		Fix("what there is: /openapi.yaml"))
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

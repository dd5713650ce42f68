package server

import (
	"net/http"
	"testing"
	"time"
)

// What only the package's own tests may use.
var (
	CheckShape = checkShape
	ErrDeep    = errDeep
	Token      = token
	ParseToken = parseToken
	MaxDepth   = maxDepth
	OpenCalls  = &openCalls
)

// QuietFor makes watches look each d whether they go on, until the test ends. Call it before the server starts.
func QuietFor(t testing.TB, d time.Duration) {
	before := quiet
	quiet = d
	t.Cleanup(func() { quiet = before })
}

// As serves every call as one caller's.
func (s *Server) As(c Caller) http.Handler {
	return s.identified(func(*http.Request) (Caller, error) { return c, nil })
}

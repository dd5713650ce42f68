package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// What only the package's own tests may use.
var (
	CheckShape = checkShape
	ErrDeep    = errDeep
	Token      = token
	ParseToken = parseToken
	MaxDepth   = maxDepth
	OpenCalls  = &openCalls
	OpenWatch  = &openWatches
)

// As serves every call as one caller's.
func (s *Server) As(c Caller) http.Handler {
	return s.identified(func(*http.Request) (Caller, error) { return c, nil })
}

// Description returns the description of the API.
func (s *Server) Description() *huma.OpenAPI { return s.api.OpenAPI() }

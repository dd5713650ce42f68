package server

import (
	"mime"
	"net/http"

	"github.com/bourse-dev/bourse/api"
)

// ownOrigin finds the calls that change something and that a page of another site made.
var ownOrigin = http.NewCrossOriginProtection()

// formTypes are the content types that a browser sends to another site without asking that site first. A body
// without a type is the fourth.
var formTypes = map[string]bool{"": true, "text/plain": true,
	"application/x-www-form-urlencoded": true, "multipart/form-data": true}

// CheckOrigin refuses a call that changes something if a page of another site can have made it, in
// the browser of a user who may call. Errors: Forbidden by the origin; Invalid by the content type.
func CheckOrigin(r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	if ownOrigin.Check(r) != nil {
		return api.Errorf(api.CodeForbidden, "a page of another site (%.80q) may not change anything here",
			r.Header.Get("Origin")).
			At("Origin").Fix("call from a page of this address; a proxy must hand on Host with its port (nginx: $http_host)")
	}
	if r.ContentLength == 0 {
		return nil
	}
	contentType := r.Header.Get("Content-Type")
	if kind, _, _ := mime.ParseMediaType(contentType); formTypes[kind] {
		return api.Invalid("Content-Type", "a body of type %.60q is not accepted", contentType).
			Fix("send JSON, with Content-Type: application/json")
	}
	return nil
}

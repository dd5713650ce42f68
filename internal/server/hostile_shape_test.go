package server_test

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// What is wrong with a call before anyone looks at what it means: route, size, depth, syntax, fields.
func TestHostileShape(t *testing.T) {
	w := newFixture(t)
	rome, milan := w.rome.HTTP, w.milan.HTTP
	const asked = `{"request":{"resources":{"cpu":"1"}}}`
	long := strings.Repeat("x", 70<<10)
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	w.refused(t, []call{
		{name: "no such route", by: rome, method: "GET", path: "/nothing", want: api.CodeNotFound, says: "there is no GET"},
		{name: "outside of the API", by: rome, method: "GET", path: "//metrics", want: api.CodeNotFound},
		{name: "no such method", by: rome, method: "DELETE", path: "/reservations/" + w.bound.ID,
			want: api.CodeNotFound, says: "there is no DELETE"},
		{name: "a method of one's own", by: rome, method: "RELEASE", path: "/reservations", want: api.CodeNotFound},
		{name: "a path that leads elsewhere", by: rome, method: "GET", path: "/clusters/../members", want: api.CodeNotFound},
		{name: "an empty segment", by: rome, method: "GET", path: "/reservations//confirm", want: api.CodeNotFound},
		{name: "NUL in the path", by: rome, method: "GET", path: "/reservations/a%00b", want: api.CodeNotFound},
		{name: "a long ID", by: rome, method: "GET", path: "/reservations/" + strings.Repeat("r", 200),
			want: api.CodeInvalid, field: "path.id"},
		{name: "huge headers", by: rome, method: "GET", path: "/clusters",
			header: map[string]string{"X-Long": long[:20<<10]}, want: api.CodeTooLarge, says: "headers"},

		{name: "an unknown parameter", by: rome, method: "GET", path: "/reservations?consumer=oslo",
			want: api.CodeInvalid, field: "query.consumer"},
		{name: "a limit of nothing", by: rome, method: "GET", path: "/reservations?limit=0",
			want: api.CodeInvalid, field: "query.limit"},
		{name: "a limit that is huge", by: rome, method: "GET", path: "/reservations?limit=99999999999999999999",
			want: api.CodeInvalid, field: "query.limit"},
		{name: "an unknown state", by: rome, method: "GET", path: "/reservations?state=Lost",
			want: api.CodeInvalid, field: "query.state"},
		{name: "a token of nothing", by: rome, method: "GET", path: "/watch?token=rome",
			want: api.CodeInvalid, field: "token"},
		{name: "a token of a negative revision", by: rome, method: "GET",
			path: "/watch?token=x.-1", want: api.CodeInvalid, field: "token"},

		{name: "no body", by: rome, method: "POST", path: "/reservations", want: api.CodeInvalid, says: "body is required"},
		{name: "not JSON", by: rome, method: "POST", path: "/reservations",
			body: `{"request":`, want: api.CodeInvalid, field: "body", says: "not JSON"},
		{name: "two values", by: rome, method: "POST", path: "/reservations",
			body: asked + asked, want: api.CodeInvalid, field: "body", says: "not JSON"},
		{name: "a list", by: rome, method: "POST", path: "/reservations", body: `[]`, want: api.CodeInvalid, field: "body"},
		{name: "null", by: rome, method: "POST", path: "/reservations", body: `null`, want: api.CodeInvalid, field: "body"},
		{name: "another type of body", by: rome, method: "POST", path: "/reservations",
			body: asked, header: map[string]string{"Content-Type": "application/xml"}, want: api.CodeInvalid, field: "body"},
		{name: "too large", by: rome, method: "POST", path: "/reservations", body: `{"request":{"where":"` + long + `"}}`, want: api.CodeTooLarge},
		{name: "too large for an advertisement", by: milan, method: "PUT",
			path: "/clusters/milan/advertisement", body: `{"` + strings.Repeat("x", 9<<20) + `":1}`, want: api.CodeTooLarge},
		{name: "too deep", by: rome, method: "POST", path: "/reservations",
			body: deep, want: api.CodeInvalid, field: "body", says: "nested"},
		{name: "too deep where nothing else is validated", by: milan, method: "PATCH",
			path: "/clusters/milan/advertisement", body: deep, want: api.CodeInvalid, field: "body", says: "nested"},
		{name: "a raw NUL", by: rome, method: "POST", path: "/reservations",
			body: "{\"request\":{\"pool\":\"a\x00b\"}}", want: api.CodeInvalid, field: "body"},
		{name: "an unknown field", by: rome, method: "POST", path: "/reservations", body: `{"request":{"resources":{"cpu":"1"},"urgency":1}}`, want: api.CodeInvalid, field: "request.urgency"},
		{name: "a missing field", by: rome, method: "POST", path: "/reservations",
			body: `{}`, want: api.CodeInvalid, field: "body", says: "request"},
		{name: "a field of another type", by: rome, method: "POST", path: "/evaluations", body: `{"request":{"resources":"all"}}`, want: api.CodeInvalid, field: "request.resources"},
		{name: "another type where nothing else is validated", by: milan, method: "PATCH", path: "/clusters/milan/advertisement", body: `{"base":"x"}`, want: api.CodeInvalid, field: "body", says: "base"},
		{name: "a long idempotency key", by: rome, method: "POST", path: "/reservations", body: asked,
			header: map[string]string{"Idempotency-Key": long[:200]}, want: api.CodeInvalid, field: "header.Idempotency-Key"},
		{name: "a key that is not UTF-8", by: rome, method: "POST", path: "/reservations", body: asked,
			header: map[string]string{"Idempotency-Key": "\xff\xfe"}, want: api.CodeInvalid, field: "Idempotency-Key"},
	})
}

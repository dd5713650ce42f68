package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// Exactly the bodies that nest too deep are refused as too deep.
func FuzzCheckShape(f *testing.F) {
	for _, seed := range []string{`{}`, `[[[]]]`, `{"a":"[[[[\"[["}`, `"\\"`, "\x00", `[`, string(bytes.Repeat([]byte("["), 30)) + string(bytes.Repeat([]byte("]"), 30))} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			_ = server.CheckShape(data) // must not panic
			return
		}
		if deep := depth(data) > server.MaxDepth; deep != errors.Is(server.CheckShape(data), server.ErrDeep) {
			t.Errorf("depth %d: %v", depth(data), server.CheckShape(data))
		}
	})
}

// depth is how deep valid JSON nests, by the decoder's own count.
func depth(data []byte) (deepest int) {
	at := 0
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			at++
		case json.Delim('}'), json.Delim(']'):
			at--
		}
		deepest = max(deepest, at)
	}
}

// A token is read back as what was written, and anything else is refused or means the same as itself.
func FuzzToken(f *testing.F) {
	for _, seed := range []string{"", ".", "l.1", "l.-1", "a.b.3", "l.18446744073709551616", "l.+1", "l.1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lineage, revision, err := server.ParseToken(text)
		if err != nil {
			if api.CodeOf(err) != api.CodeInvalid {
				t.Error(err)
			}
			return
		}
		again, same, err := server.ParseToken(server.Token(lineage, revision))
		if err != nil || again != lineage || same != revision {
			t.Errorf("%q is %q %d, and then %q %d, %v", text, lineage, revision, again, same, err)
		}
	})
}

// No body of any route makes the server fail, or answer with anything but its own errors.
func FuzzBodies(f *testing.F) {
	federation := servertest.Start(f, servertest.Options{})
	federation.Join("rome")
	routes := []string{
		"PUT /clusters/rome/card", "PUT /clusters/rome/advertisement", "PATCH /clusters/rome/advertisement",
		"POST /evaluations", "POST /reservations", "POST /reservations/r/confirm", "POST /reservations/r/accept",
		"POST /reservations/r/refuse", "POST /reservations/r/release", "POST /reservations/r/progress",
		"POST /tokens", "POST /join", "POST /renew",
	}
	for i := range routes {
		for _, body := range bodies {
			f.Add(uint8(i), []byte(body))
		}
		f.Add(uint8(i), []byte(`{"request":{"resources":{"cpu":"1","memory":"1Gi"},"duration":"1h","where":"region == 'eu'","prefer":["a"]}}`))
		f.Add(uint8(i), []byte(`{"sequence":{"incarnation":1,"number":2},"terms":{"allow":"true"},"pools":{"general":{"shared":{"cpu":"1"},"accounts":{"rome":{"used":{"cpu":"1m"},"commitments":{"r":{"cpu":"1"}}}}}}}`))
		f.Add(uint8(i),
			[]byte(`{"base":{"incarnation":1,"number":2},"sequence":{"incarnation":1,"number":3},"pools":{"general":null}}`))
	}
	member := federation.Server.As(server.Caller{Role: tlsid.RoleCluster, Name: "rome"})
	operator := federation.Server.As(server.Caller{Role: tlsid.RoleOperator, Name: "admin"})
	f.Fuzz(func(t *testing.T, route uint8, body []byte) {
		method, path, _ := bytes.Cut([]byte(routes[int(route)%len(routes)]), []byte(" "))
		handler := member
		if string(path) == "/tokens" {
			handler = operator
		}
		r := httptest.NewRequest(string(method), api.Prefix+string(path), bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code < 300 {
			return
		}
		var e api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil ||
			e.Code == api.CodeInternal || e.Status != w.Code || w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s with %q: %d %s", method, path, body, w.Code, w.Body)
		}
	})
}

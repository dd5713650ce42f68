package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
)

// inside carries the session's own calls in memory, with which it reads what to show to the member.
type inside struct {
	session *memberSession
	role    tlsid.Role
}

// api returns the REST API as the member sees it.
func (m *memberSession) api() *client.Client {
	return client.New("http://objects", &http.Client{Transport: inside{m, tlsid.RoleCluster}})
}

// callPrototypes makes a call to the prototypes' interface and returns its error. key may be empty.
func (m *memberSession) callPrototypes(ctx context.Context, method, path, key, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://objects"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := inside{m, tlsid.RoleLegacy}.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		return nil
	}
	var e api.Error
	if json.NewDecoder(answer.Body).Decode(&e) != nil || e.Code == "" {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return &e
}

// RoundTrip implements http.RoundTripper.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	call := r.Clone(as(r.Context(), i.role, i.session.cluster))
	call.RemoteAddr = "namespace " + i.session.namespace
	return server.Inside(i.session.rest, call), nil
}

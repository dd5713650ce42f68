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

// inside carries the desk's own calls in memory: those by which it finds out what the member is to be shown.
type inside struct {
	desk *desk
	role tlsid.Role
}

// api is the REST API as the member reads it.
func (d *desk) api() *client.Client {
	return client.New("http://objects", &http.Client{Transport: inside{d, tlsid.RoleCluster}})
}

// own makes a call of the prototypes' interface, which has its own shapes, and returns its error. key may be empty.
func (d *desk) own(ctx context.Context, method, path, key, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://objects"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", key)
	answer, err := inside{d, tlsid.RoleLegacy}.RoundTrip(r)
	if err != nil || answer.StatusCode < 300 {
		return err
	}
	var e api.Error
	if json.NewDecoder(answer.Body).Decode(&e) != nil || e.Code == "" {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return &e
}

// RoundTrip implements http.RoundTripper.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	call := r.Clone(as(r.Context(), i.role, i.desk.cluster))
	call.RemoteAddr = "namespace " + i.desk.namespace
	return server.Inside(i.desk.rest, call), nil
}

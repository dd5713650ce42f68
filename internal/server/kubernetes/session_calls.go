package kubernetes

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// serveCalls starts new calls, continues those whose answer the member reads, and ends removed ones.
func (m *memberSession) serveCalls(ctx context.Context, calls map[string]kubernetes.Call,
	answers map[string]kubernetes.Answer) {
	for id := range m.calls {
		if _, still := calls[id]; !still {
			m.endCall(id)
		}
	}
	for id, c := range calls {
		j := m.calls[id]
		if _, answered := answers[id]; j == nil && answered {
			continue // a broker that has ended answered it: see answers
		}
		if j == nil {
			j = m.startCall(ctx, c)
			m.calls[id] = j
		}
		j.stream.read(c.Read)
	}
}

// answers returns the answers to write.
func (m *memberSession) answers(before map[string]kubernetes.Answer,
	calls map[string]kubernetes.Call) map[string]kubernetes.Answer {
	out := map[string]kubernetes.Answer{}
	for id := range calls {
		if j := m.calls[id]; j != nil {
			if piece, ok := j.stream.currentPiece(); ok {
				out[id] = piece
			}
			continue
		}
		a := before[id]
		a.Lost = !a.Done
		out[id] = a
	}
	return out
}

// startCall makes a call to the REST API as the member.
func (m *memberSession) startCall(ctx context.Context, c kubernetes.Call) *job {
	ctx, cancel := context.WithCancel(as(ctx, tlsid.RoleCluster, m.cluster))
	j := &job{newStream(m.wake), cancel}
	r, err := m.request(ctx, c)
	if err != nil {
		server.Refuse(j.stream, &http.Request{URL: &url.URL{Path: api.Prefix}}, err)
		j.stream.end()
		return j
	}
	stop := context.AfterFunc(ctx, j.stream.close)
	m.all.Go(func() {
		defer stop()
		defer j.stream.end()
		m.rest.ServeHTTP(j.stream, r)
	})
	return j
}

// apart lists the calls that are not served to a member with a token of the broker's cluster. With a
// certificate it would stay a caller for longer than its token is valid.
var apart = []string{api.Prefix + "/join", api.Prefix + "/renew"}

// request converts a call to an HTTP request. Errors: Invalid, Forbidden, TooLarge.
func (m *memberSession) request(ctx context.Context, c kubernetes.Call) (*http.Request, error) {
	if len(c.Body) > kubernetes.MaxBody {
		return nil, api.Errorf(api.CodeTooLarge, "the call has %d bytes", len(c.Body)).At("body").
			Fix("send at most %d", kubernetes.MaxBody)
	}
	address, err := url.ParseRequestURI(c.Path)
	if err != nil || address.Host != "" || !strings.HasPrefix(address.Path, api.Prefix+"/") {
		return nil, api.Invalid("path", "%.80q is not a path of the API", c.Path).
			Fix("call what is under %s: /openapi.yaml", api.Prefix)
	}
	if slices.Contains(apart, address.Path) {
		return nil, api.Errorf(api.CodeForbidden, "%s is not answered through objects", address.Path).
			Fix("ask the broker's operator for a kubeconfig: bourse broker kubeconfig %s", m.cluster)
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, "http://objects"+address.RequestURI(), strings.NewReader(c.Body))
	if err != nil {
		return nil, api.Invalid("method", "%.20q is none", c.Method).Fix("use one of REST: GET, POST, PUT, PATCH, DELETE")
	}
	r.RequestURI, r.RemoteAddr = address.RequestURI(), "namespace "+m.namespace
	r.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		r.Header.Set("Idempotency-Key", c.Key)
	}
	return r, nil
}

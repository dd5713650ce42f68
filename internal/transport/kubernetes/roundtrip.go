package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// call is an active call.
type call struct {
	conn *Connection
	id   string
	ctx  context.Context

	news   chan struct{} // latest changed
	latest Answer        // guarded by the connection's lock, as is cut
	cut    error         // the reason for which no answers arrive any more

	read, reported int64 // the bytes that were read, and those that were reported to the broker
	over           sync.Once
}

// RoundTrip implements http.RoundTripper. Errors: Unavailable, TooLarge.
func (conn *Connection) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	select {
	case conn.slots <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	c := &call{conn: conn, id: newID(), ctx: r.Context(), news: make(chan struct{}, 1)}
	conn.mu.Lock()
	conn.calls[c.id] = c
	conn.mu.Unlock()
	err = conn.write(r.Context(), map[string]any{c.id: Call{Method: r.Method,
		Path: r.URL.RequestURI(), Key: r.Header.Get("Idempotency-Key"), Body: body}})
	if err != nil {
		c.end()
		return nil, conn.explain(err)
	}
	first, err := c.await(func(a Answer) bool { return a.Status != 0 })
	if err != nil {
		c.end()
		return nil, conn.unanswered(err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if !first.Date.IsZero() {
		header.Set("Date", first.Date.UTC().Format(http.TimeFormat))
	}
	return &http.Response{
		StatusCode: first.Status, Status: fmt.Sprintf("%d %s", first.Status,
			http.StatusText(first.Status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: c, ContentLength: -1, Request: r,
	}, nil
}

func readBody(r *http.Request) (string, error) {
	if r.Body == nil {
		return "", nil
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err == nil && len(data) > MaxBody {
		err = api.Errorf(api.CodeTooLarge, "the call has more than %d bytes, more than objects carry", MaxBody).
			Fix("reach the broker by its REST API: --broker-transport http")
	}
	return string(data), err
}

// newID returns a unique ID.
func newID() string { return strings.ToLower(rand.Text()[:16]) }

// write adds calls (nil removes one) and removes the answered ones.
func (conn *Connection) write(ctx context.Context, calls map[string]any) error {
	conn.mu.Lock()
	for _, id := range conn.answered {
		calls[id] = nil
	}
	taken := conn.answered
	conn.answered = nil
	conn.mu.Unlock()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"clusterID": conn.cluster, "calls": calls}})
	if err == nil {
		err = conn.client.Patch(ctx, Object(Advertisements, conn.key.Namespace, conn.key.Name),
			client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		conn.mu.Lock()
		conn.answered = append(conn.answered, taken...)
		conn.mu.Unlock()
	}
	return err
}

// explain describes an error of the broker's cluster. An admin may correct its cause, so the call
// may be repeated.
func (conn *Connection) explain(err error) error {
	e := api.Errorf(api.CodeUnavailable, "ClusterAdvertisement %s: %s", conn.key, err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsNotFound(err):
		return e.Fix("start the broker with --broker-interface kubernetes, or give the namespace that bourse broker "+
			"kubeconfig %s named: --broker-namespace", conn.cluster)
	case apierrors.IsUnauthorized(err):
		return e.Fix("its token has ended, or the member was revoked: ask the broker's operator for another kubeconfig "+
			"(bourse broker kubeconfig %s)", conn.cluster)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return e.Fix("the kubeconfig, --broker-namespace and --cluster-id must be those of one member")
	}
	return e.Fix("check that the cluster of the broker can be reached")
}

// unanswered describes why there may be no answer in time.
func (conn *Connection) unanswered(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	e := api.Errorf(api.CodeUnavailable, "the broker did not answer in ClusterAdvertisement %s", conn.key)
	if conn.message != "" {
		e.Detail += ": " + conn.message
	}
	return e.Fix("check that it runs, with --broker-interface kubernetes")
}

// await waits for an answer that ready accepts.
func (c *call) await(ready func(Answer) bool) (Answer, error) {
	for {
		c.conn.mu.Lock()
		latest, cut := c.latest, c.cut
		c.conn.mu.Unlock()
		switch {
		case latest.Lost:
			return latest, io.ErrUnexpectedEOF
		case ready(latest):
			return latest, nil
		case cut != nil:
			return Answer{}, c.conn.explain(cut)
		}
		select {
		case <-c.news:
		case <-c.ctx.Done():
			return Answer{}, c.ctx.Err()
		case <-c.conn.ctx.Done():
			return Answer{}, c.conn.ctx.Err()
		}
	}
}

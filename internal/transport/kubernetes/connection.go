package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

const (
	// told is the number of read bytes after which the agent reports its position.
	told = 8 << 10
	// patience bounds a check for answers, and the removal of an abandoned call.
	patience = 5 * time.Second
)

// Connection carries calls of the REST API through a member's ClusterAdvertisement.
type Connection struct {
	client client.WithWatch
	key    client.ObjectKey
	// cluster is the member's ID.
	cluster string
	log     *slog.Logger
	slots   chan struct{}
	ctx     context.Context

	mu       sync.Mutex
	calls    map[string]*call
	answered []string // calls to remove with the next one
	message  string   // an error of the broker about the object
}

// Open opens the connection of a member. It ends with ctx.
func Open(ctx context.Context, cluster string, a *Access, log *slog.Logger) (*Connection, error) {
	c, err := client.NewWithWatch(a.Config, client.Options{Mapper: Mapper()})
	if err != nil {
		return nil, err
	}
	conn := &Connection{
		client: c, key: client.ObjectKey{Namespace: a.Namespace,
			Name: AdvertisementName(cluster)}, cluster: cluster, log: log,
		slots: make(chan struct{}, MaxCalls), ctx: ctx, calls: map[string]*call{},
	}
	go conn.listen(ctx)
	return conn, nil
}

// call is an active call.
type call struct {
	conn *Connection
	id   string
	ctx  context.Context

	news   chan struct{} // latest changed
	latest Answer        // guarded by the connection's lock, as are the next two
	known  bool
	cut    error // the reason for which no answers arrive any more

	at, said int64 // the bytes that were read, and those that were reported to the broker
	over     sync.Once
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
		return e.Fix("start the broker with --broker-interface kubernetes, or give the namespace that bourse broker kubeconfig %s named: --broker-namespace", conn.cluster)
	case apierrors.IsUnauthorized(err):
		return e.Fix("its token has ended, or the member was revoked: ask the broker's operator for another kubeconfig (bourse broker kubeconfig %s)", conn.cluster)
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
		latest, known, cut := c.latest, c.known, c.cut
		c.conn.mu.Unlock()
		if known && (latest.Lost || ready(latest)) {
			if latest.Lost {
				return latest, io.ErrUnexpectedEOF
			}
			return latest, nil
		}
		if cut != nil {
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

// Read implements io.Reader.
func (c *call) Read(p []byte) (int, error) {
	a, err := c.await(func(a Answer) bool {
		return c.at >= a.From && c.at < a.From+int64(len(a.Body)) || a.Done && c.at >= a.From+int64(len(a.Body))
	})
	if err != nil {
		return 0, err
	}
	if c.at >= a.From+int64(len(a.Body)) {
		return 0, io.EOF
	}
	n := copy(p, a.Body[c.at-a.From:])
	c.at += int64(n)
	if !a.Done && c.at-c.said >= told {
		if err := c.conn.write(c.ctx, map[string]any{c.id: map[string]any{"read": c.at}}); err != nil {
			return n, c.conn.explain(err)
		}
		c.said = c.at
	}
	return n, nil
}

// Close implements io.Closer.
func (c *call) Close() error {
	c.end()
	return nil
}

// end removes the call: with the next one if it was answered, otherwise now, so that the broker stops.
func (c *call) end() {
	c.over.Do(func() {
		conn := c.conn
		conn.mu.Lock()
		delete(conn.calls, c.id)
		finished := c.known && (c.latest.Done || c.latest.Lost)
		if finished {
			conn.answered = append(conn.answered, c.id)
		}
		conn.mu.Unlock()
		if finished {
			<-conn.slots
			return
		}
		go func() {
			defer func() { <-conn.slots }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(conn.ctx), patience)
			defer cancel()
			if err := conn.write(ctx, map[string]any{c.id: nil}); err != nil {
				conn.mu.Lock()
				conn.answered = append(conn.answered, c.id)
				conn.mu.Unlock()
			}
		}()
	})
}

// listen delivers answers until ctx ends. It opens an ended watch again, and fails the calls only
// if that fails.
func (conn *Connection) listen(ctx context.Context) {
	for wait := shortest; ctx.Err() == nil; {
		heard, err := conn.follow(ctx)
		if heard {
			wait = shortest
		} else if ctx.Err() == nil {
			conn.cut(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, longest)
	}
}

// The delays before it listens again.
const (
	shortest = 100 * time.Millisecond
	longest  = 5 * time.Second
)

// cut ends all calls with an error. Their callers repeat them.
func (conn *Connection) cut(err error) {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	for _, c := range conn.calls {
		c.cut = err
		c.tell()
	}
}

func (c *call) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// follow watches the object until the watch ends, and reports whether it received an event.
func (conn *Connection) follow(ctx context.Context) (heard bool, err error) {
	list := List(Advertisements)
	only := &client.ListOptions{Namespace: conn.key.Namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", conn.key.Name)}
	soon, cancel := context.WithTimeout(ctx, patience) // the client itself would try for longer
	defer cancel()
	if err := conn.client.List(soon, list, only); err != nil {
		return false, err
	}
	for i := range list.Items {
		conn.hear(&list.Items[i])
	}
	only.Raw = &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
	changes, err := conn.client.Watch(ctx, List(Advertisements), only)
	if err != nil {
		return false, err
	}
	defer changes.Stop()
	for event := range changes.ResultChan() {
		if event.Type == watch.Error {
			return true, apierrors.FromObject(event.Object)
		}
		if u, ok := event.Object.(*unstructured.Unstructured); ok {
			conn.hear(u)
		}
	}
	return true, nil
}

// hear delivers the answers in an object.
func (conn *Connection) hear(u *unstructured.Unstructured) {
	var spec Spec
	var status Status
	if err := errors.Join(Part(u, "spec", &spec), Part(u, "status", &status)); err != nil {
		conn.log.Warn("the broker's answers cannot be read", "error", err)
		return
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.message = status.Message
	for id, answer := range status.Answers {
		if c := conn.calls[id]; c != nil {
			c.latest, c.known = answer, true
			c.tell()
		}
	}
	conn.sweep(spec.Calls)
}

// sweep removes calls that nobody here awaits: those of an earlier agent, or whose removal was lost.
func (conn *Connection) sweep(there map[string]Call) {
	for id := range there {
		if conn.calls[id] == nil && !slices.Contains(conn.answered, id) {
			conn.answered = append(conn.answered, id)
		}
	}
}

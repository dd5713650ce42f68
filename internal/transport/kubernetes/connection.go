package kubernetes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Read implements io.Reader.
func (c *call) Read(p []byte) (int, error) {
	a, err := c.await(func(a Answer) bool {
		return c.read >= a.From && c.read < a.From+int64(len(a.Body)) || a.Done && c.read >= a.From+int64(len(a.Body))
	})
	if err != nil {
		return 0, err
	}
	if c.read >= a.From+int64(len(a.Body)) {
		return 0, io.EOF
	}
	n := copy(p, a.Body[c.read-a.From:])
	c.read += int64(n)
	if !a.Done && c.read-c.reported >= told {
		if err := c.conn.write(c.ctx, map[string]any{c.id: map[string]any{"read": c.read}}); err != nil {
			return n, c.conn.explain(err)
		}
		c.reported = c.read
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
		finished := c.latest.Done || c.latest.Lost
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
		received, err := conn.follow(ctx)
		if received {
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
		c.signal()
	}
}

func (c *call) signal() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// follow watches the object until the watch ends, and reports whether it received an event.
func (conn *Connection) follow(ctx context.Context) (received bool, err error) {
	list := List(Advertisements)
	only := &client.ListOptions{Namespace: conn.key.Namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", conn.key.Name)}
	soon, cancel := context.WithTimeout(ctx, patience) // the client itself would try for longer
	defer cancel()
	if err := conn.client.List(soon, list, only); err != nil {
		return false, err
	}
	for i := range list.Items {
		conn.deliverAnswers(&list.Items[i])
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
			conn.deliverAnswers(u)
		}
	}
	return true, nil
}

// deliverAnswers delivers the answers in an object.
func (conn *Connection) deliverAnswers(u *unstructured.Unstructured) {
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
			c.latest = answer
			c.signal()
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

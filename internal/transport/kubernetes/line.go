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
	// told is after how many bytes that it has read the agent says so.
	told = 8 << 10
	// patience is how long it may take to look for answers, and to take away a call that nobody waits for any more.
	patience = 5 * time.Second
)

// Line carries calls of the REST API through a member's ClusterAdvertisement.
type Line struct {
	client client.WithWatch
	key    client.ObjectKey
	// cluster is the member's ID.
	cluster string
	log     *slog.Logger
	slots   chan struct{}
	ctx     context.Context

	mu       sync.Mutex
	calls    map[string]*call
	answered []string // calls to be taken away with the next one that is made
	message  string   // what the broker says is wrong
}

// Open opens the line of a member. It ends with ctx.
func Open(ctx context.Context, cluster string, a *Access, log *slog.Logger) (*Line, error) {
	c, err := client.NewWithWatch(a.Config, client.Options{Mapper: Mapper()})
	if err != nil {
		return nil, err
	}
	l := &Line{
		client: c, key: client.ObjectKey{Namespace: a.Namespace, Name: AdvertisementName(cluster)}, cluster: cluster, log: log,
		slots: make(chan struct{}, MaxCalls), ctx: ctx, calls: map[string]*call{},
	}
	go l.listen(ctx)
	return l, nil
}

// call is one that is under way.
type call struct {
	line *Line
	id   string
	ctx  context.Context

	news   chan struct{} // latest changed
	latest Answer        // guarded by the line's lock, as are the next two
	known  bool
	cut    error // why nothing is heard any more

	at, said int64 // read so far, and how much of that the broker was told
	over     sync.Once
}

// RoundTrip implements http.RoundTripper. Errors: Unavailable, TooLarge.
func (l *Line) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	c := &call{line: l, id: newID(), ctx: r.Context(), news: make(chan struct{}, 1)}
	l.mu.Lock()
	l.calls[c.id] = c
	l.mu.Unlock()
	err = l.write(r.Context(), map[string]any{c.id: Call{Method: r.Method, Path: r.URL.RequestURI(), Key: r.Header.Get("Idempotency-Key"), Body: body}})
	if err != nil {
		c.end()
		return nil, l.explain(err)
	}
	first, err := c.await(func(a Answer) bool { return a.Status != 0 })
	if err != nil {
		c.end()
		return nil, l.unanswered(err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if !first.Date.IsZero() {
		header.Set("Date", first.Date.UTC().Format(http.TimeFormat))
	}
	return &http.Response{
		StatusCode: first.Status, Status: fmt.Sprintf("%d %s", first.Status, http.StatusText(first.Status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
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
		err = api.Errorf(api.CodeTooLarge, "the call has more than %d bytes, more than objects carry", MaxBody).Fix("reach the broker by its REST API: --broker-transport http")
	}
	return string(data), err
}

// newID makes an ID that no other call has, nor had.
func newID() string { return strings.ToLower(rand.Text()[:16]) }

// write changes calls (nil takes one away), and takes away those that were answered.
func (l *Line) write(ctx context.Context, calls map[string]any) error {
	l.mu.Lock()
	for _, id := range l.answered {
		calls[id] = nil
	}
	taken := l.answered
	l.answered = nil
	l.mu.Unlock()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"clusterID": l.cluster, "calls": calls}})
	if err == nil {
		err = l.client.Patch(ctx, Object(Advertisements, l.key.Namespace, l.key.Name), client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		l.mu.Lock()
		l.answered = append(l.answered, taken...)
		l.mu.Unlock()
	}
	return err
}

// explain says what an error of the broker's cluster means. What an admin has to put right may be right the next time.
func (l *Line) explain(err error) error {
	e := api.Errorf(api.CodeUnavailable, "ClusterAdvertisement %s: %s", l.key, err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsNotFound(err):
		return e.Fix("start the broker with --broker-interface kubernetes, or give the namespace that bourse broker kubeconfig %s named: --broker-namespace", l.cluster)
	case apierrors.IsUnauthorized(err):
		return e.Fix("its token has ended, or the member was revoked: ask the broker's operator for another kubeconfig (bourse broker kubeconfig %s)", l.cluster)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return e.Fix("the kubeconfig, --broker-namespace and --cluster-id must be those of one member")
	}
	return e.Fix("check that the cluster of the broker can be reached")
}

// unanswered says why there may be no answer in time.
func (l *Line) unanswered(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := api.Errorf(api.CodeUnavailable, "the broker did not answer in ClusterAdvertisement %s", l.key)
	if l.message != "" {
		e.Detail += ": " + l.message
	}
	return e.Fix("check that it runs, with --broker-interface kubernetes")
}

// await waits for an answer that will do.
func (c *call) await(do func(Answer) bool) (Answer, error) {
	for {
		c.line.mu.Lock()
		latest, known, cut := c.latest, c.known, c.cut
		c.line.mu.Unlock()
		if known && (latest.Lost || do(latest)) {
			if latest.Lost {
				return latest, io.ErrUnexpectedEOF
			}
			return latest, nil
		}
		if cut != nil {
			return Answer{}, c.line.explain(cut)
		}
		select {
		case <-c.news:
		case <-c.ctx.Done():
			return Answer{}, c.ctx.Err()
		case <-c.line.ctx.Done():
			return Answer{}, c.line.ctx.Err()
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
		if err := c.line.write(c.ctx, map[string]any{c.id: map[string]any{"read": c.at}}); err != nil {
			return n, c.line.explain(err)
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

// end takes the call away: with the next one if it was answered, or else now, so that the broker does not go on.
func (c *call) end() {
	c.over.Do(func() {
		l := c.line
		l.mu.Lock()
		delete(l.calls, c.id)
		finished := c.known && (c.latest.Done || c.latest.Lost)
		if finished {
			l.answered = append(l.answered, c.id)
		}
		l.mu.Unlock()
		if finished {
			<-l.slots
			return
		}
		go func() {
			defer func() { <-l.slots }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), patience)
			defer cancel()
			if err := l.write(ctx, map[string]any{c.id: nil}); err != nil {
				l.mu.Lock()
				l.answered = append(l.answered, c.id)
				l.mu.Unlock()
			}
		}()
	})
}

// listen hands out answers until ctx ends. A watch that ends is opened again; only when that fails, calls do.
func (l *Line) listen(ctx context.Context) {
	for wait := shortest; ctx.Err() == nil; {
		heard, err := l.follow(ctx)
		if heard {
			wait = shortest
		} else if ctx.Err() == nil {
			l.cut(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, longest)
	}
}

// How long it waits until it listens again.
const (
	shortest = 100 * time.Millisecond
	longest  = 5 * time.Second
)

// cut ends all calls: those who made them make them again, and learn what is wrong.
func (l *Line) cut(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
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

// follow watches the object until the watch ends, and says whether anything could be heard.
func (l *Line) follow(ctx context.Context) (heard bool, err error) {
	list := List(Advertisements)
	only := &client.ListOptions{Namespace: l.key.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", l.key.Name)}
	soon, cancel := context.WithTimeout(ctx, patience) // the client would try for longer
	defer cancel()
	if err := l.client.List(soon, list, only); err != nil {
		return false, err
	}
	for i := range list.Items {
		l.hear(&list.Items[i])
	}
	only.Raw = &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
	changes, err := l.client.Watch(ctx, List(Advertisements), only)
	if err != nil {
		return false, err
	}
	defer changes.Stop()
	for event := range changes.ResultChan() {
		if event.Type == watch.Error {
			return true, apierrors.FromObject(event.Object)
		}
		if u, ok := event.Object.(*unstructured.Unstructured); ok {
			l.hear(u)
		}
	}
	return true, nil
}

// hear hands out the answers in an object.
func (l *Line) hear(u *unstructured.Unstructured) {
	var spec Spec
	var status Status
	if err := errors.Join(Part(u, "spec", &spec), Part(u, "status", &status)); err != nil {
		l.log.Warn("the broker's answers cannot be read", "error", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.message = status.Message
	for id, answer := range status.Answers {
		if c := l.calls[id]; c != nil {
			c.latest, c.known = answer, true
			c.tell()
		}
	}
	l.sweep(spec.Calls)
}

// sweep has calls taken away for which nobody here waits: those of an agent that ran before, or whose end was lost.
func (l *Line) sweep(there map[string]Call) {
	for id := range there {
		if l.calls[id] == nil && !slices.Contains(l.answered, id) {
			l.answered = append(l.answered, id)
		}
	}
}

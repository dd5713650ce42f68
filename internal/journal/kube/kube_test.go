package kube

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	testtracker "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/journaltest"
)

var (
	key      = client.ObjectKey{Namespace: "bourse", Name: "gate"}
	resource = schema.GroupResource{Group: kind.Group, Resource: "ledgers"}

	timeout   = apierrors.NewTimeoutError("too slow", 1)
	broken    = &netError{io.ErrUnexpectedEOF}
	forbidden = apierrors.NewForbidden(resource, key.Name, errors.New("no such right"))
)

type netError struct{ error }

// Stand-ins for errors that errors.Is does not know.
var errRefused, errNotFound = errors.New("refused"), errors.New("not found")

func is(err, want error) bool {
	var refused *journal.RefusedError
	switch want {
	case errRefused:
		return errors.As(err, &refused)
	case errNotFound:
		return apierrors.IsNotFound(err)
	}
	return errors.Is(err, want)
}

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "25") // of the many steps that each takes
	goleak.VerifyTestMain(m)
}

func newCluster() client.WithWatch {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	// not the default: it looks at each field
	tracker := testtracker.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).Build()
}

// agent returns a journal whose requests go through funcs.
func agent(t testing.TB, cluster client.WithWatch, funcs interceptor.Funcs) *Journal {
	j := New(interceptor.NewClient(cluster, funcs), key, Parts)
	j.retry.Duration = time.Microsecond
	t.Cleanup(func() { j.Close() })
	return j
}

func load(t testing.TB, j journal.Journal) journaltest.Content {
	t.Helper()
	content, err := journaltest.Read(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestConformance(t *testing.T) {
	for name, l := range map[string]limits{"in one object": {},
		"in parts": {Parts, partSize, inlineTail, inlineSnapshot, mergeSize}, "in many small parts": small} {
		t.Run(name, func(t *testing.T) {
			journaltest.Run(t, func(t testing.TB) func() journal.Journal {
				cluster := newCluster()
				return func() journal.Journal {
					j := agent(t, cluster, interceptor.Funcs{})
					j.limits = l
					return j
				}
			})
		})
	}
}

// small are limits under which nearly everything lies in parts.
var small = limits{parts: 3 * 2048, part: 500, inlineTail: 100, inlineSnapshot: 20, mergeSize: 200}

// An act is what somebody does in a cluster, a fault what becomes of an update, which is an act too.
type (
	act   func(ctx context.Context, cluster client.Client) error
	fault func(ctx context.Context, cluster client.Client, update act) error
)

// faulty returns an agent whose Updates meet one fault each, while there are any.
func faulty(t testing.TB, cluster client.WithWatch, faults ...fault) *Journal {
	return agent(t, cluster, interceptor.Funcs{
		Update: func(ctx context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			sent := object.DeepCopyObject().(client.Object)
			update := func(ctx context.Context, cluster client.Client) error { return cluster.Update(ctx, sent) }
			if len(faults) > 0 {
				next := faults[0]
				faults = faults[1:]
				return next(ctx, cluster, update)
			}
			return cluster.Update(ctx, object)
		},
	})
}

// done is an update before and after which others act; its answer is replaced by err, unless that is
// nil.
func done(err error, before, after act) fault {
	return func(ctx context.Context, cluster client.Client, update act) error {
		if err := before(ctx, cluster); err != nil {
			return err
		}
		answer := update(ctx, cluster)
		if err := after(ctx, cluster); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		return answer
	}
}

// lost is an update that does not arrive.
func lost(err error, meanwhile act) fault {
	return func(ctx context.Context, cluster client.Client, _ act) error {
		return errors.Join(meanwhile(ctx, cluster), err)
	}
}

// late is an update that arrives just before the next one.
func late(err error) []fault {
	var delayed act
	return []fault{
		func(_ context.Context, _ client.Client, update act) error { delayed = update; return err },
		func(ctx context.Context, cluster client.Client, update act) error {
			return errors.Join(delayed(ctx, cluster), update(ctx, cluster))
		},
	}
}

func nothing(context.Context, client.Client) error { return nil }

// otherAppends is the second of two live agents.
func otherAppends(event string) act {
	return func(ctx context.Context, cluster client.Client) error {
		other := New(cluster, key, Parts)
		content, err := journaltest.Read(ctx, other)
		if err == nil {
			_, err = other.Append(ctx, content.Head, [][]byte{[]byte(event)})
		}
		return err
	}
}

func edit(change func(object *unstructured.Unstructured)) act {
	return func(ctx context.Context, cluster client.Client) error {
		object := newLedger(key)
		if err := cluster.Get(ctx, key, object); err != nil {
			return err
		}
		change(object)
		return cluster.Update(ctx, object)
	}
}

var (
	labelled = edit(func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"a": "b"}) })
	forged   = edit(func(object *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(object.Object, int64(7), "spec", "head", "revision")
	})
	deleted act = func(ctx context.Context, cluster client.Client) error { return cluster.Delete(ctx, newLedger(key)) }
)

func TestAppendMeetsFaults(t *testing.T) {
	const ours, theirs = "ours", "theirs"
	for name, test := range map[string]struct {
		faults []fault
		want   error    // of Append
		events []string // in the journal then
	}{
		"none":                            {nil, nil, []string{ours}},
		"lost":                            {[]fault{lost(timeout, nothing)}, nil, []string{ours}},
		"lost with the connection":        {[]fault{lost(broken, nothing)}, nil, []string{ours}},
		"lost twice":                      {[]fault{lost(timeout, nothing), lost(broken, nothing)}, nil, []string{ours}},
		"answer lost":                     {[]fault{done(timeout, nothing, nothing)}, nil, []string{ours}},
		"answer lost with the connection": {[]fault{done(broken, nothing, nothing)}, nil, []string{ours}},
		"lost, then answer lost": {[]fault{lost(broken, nothing), done(timeout, nothing, nothing)},
			nil, []string{ours}},
		"late":                   {late(timeout), nil, []string{ours}},
		"label set":              {[]fault{done(nil, labelled, nothing)}, nil, []string{ours}},
		"lost, label set":        {[]fault{lost(timeout, labelled)}, nil, []string{ours}},
		"answer lost, label set": {[]fault{done(timeout, nothing, labelled)}, nil, []string{ours}},
		"another agent before": {[]fault{done(nil, otherAppends(theirs), nothing)},
			journal.ErrConflict, []string{theirs}},
		"another agent before, answer lost": {[]fault{done(broken, otherAppends(theirs), nothing)},
			journal.ErrConflict, []string{theirs}},
		"lost, another agent": {[]fault{lost(broken, otherAppends(theirs))},
			journal.ErrConflict, []string{theirs}},
		"lost, another agent, the same batch": {[]fault{lost(broken, otherAppends(ours))},
			journal.ErrConflict, []string{ours}},
		"another agent, the same batch": {[]fault{done(nil, otherAppends(ours), nothing)},
			journal.ErrConflict, []string{ours}},
		"answer lost, another agent after": {[]fault{done(timeout, nothing, otherAppends(theirs))},
			journal.ErrConflict, []string{ours, theirs}},
		"right missing": {[]fault{lost(forbidden, nothing)}, forbidden, nil},
		"always lost":   {slices.Repeat([]fault{lost(broken, nothing)}, 20), broken, nil},
		"forged":        {[]fault{done(nil, forged, nothing)}, errRefused, nil},
		"deleted":       {[]fault{done(nil, deleted, nothing)}, errNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster()
			j := faulty(t, cluster, test.faults...)
			begin := load(t, j).Head
			head, err := j.Append(t.Context(), begin, [][]byte{[]byte(ours)})
			if !is(err, test.want) {
				t.Fatalf("append: %v, want %v", err, test.want)
			}
			if test.want == errRefused {
				if _, err := journaltest.Read(t.Context(), j); !is(err, errRefused) {
					t.Errorf("load: %v, want it refused", err)
				}
				return
			}
			if test.want != nil { // who does not know must ask
				if _, err := j.Append(t.Context(), begin, [][]byte{[]byte(ours)}); !errors.Is(err, journal.ErrNotLoaded) {
					t.Errorf("append again: %v, want ErrNotLoaded", err)
				}
			}
			content := load(t, agent(t, cluster, interceptor.Funcs{}))
			var events []string
			for _, record := range content.Records {
				events = append(events, string(record.Events[0]))
			}
			if !slices.Equal(events, test.events) || test.want == nil && head != content.Head {
				t.Errorf("the journal holds %v to %v, append returned %v; want %v", events, content.Head, head, test.events)
			}
			if _, err := j.Append(t.Context(), load(t, j).Head, [][]byte{[]byte("next")}); err != nil && len(test.faults) < 20 {
				t.Errorf("append after load: %v", err)
			}
		})
	}
}

func TestLoadMeetsFaults(t *testing.T) {
	for name, funcs := range map[string]func(fail func() error) interceptor.Funcs{
		"read": func(fail func() error) interceptor.Funcs {
			return interceptor.Funcs{Get: func(ctx context.Context, cluster client.WithWatch,
				key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
				if err := fail(); err != nil {
					return err
				}
				return cluster.Get(ctx, key, object)
			}}
		},
		"creation": func(fail func() error) interceptor.Funcs {
			return interceptor.Funcs{Create: func(ctx context.Context,
				cluster client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				if err := fail(); err != nil {
					return err
				}
				return cluster.Create(ctx, object)
			}}
		},
		"answer to the creation": func(fail func() error) interceptor.Funcs {
			return interceptor.Funcs{Create: func(ctx context.Context,
				cluster client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				return errors.Join(fail(), cluster.Create(ctx, object))
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, failures := newCluster(), 2
			content := load(t, agent(t, cluster, funcs(func() error {
				if failures--; failures >= 0 {
					return broken
				}
				return nil
			})))
			if again := load(t, agent(t, cluster, interceptor.Funcs{})); again.Head != content.Head {
				t.Errorf("loaded %v, then %v", content.Head, again.Head)
			}
			_, err := journaltest.Read(t.Context(), agent(t, newCluster(), funcs(func() error { return forbidden })))
			if !errors.Is(err, forbidden) {
				t.Errorf("load: %v, want %v", err, forbidden)
			}
		})
	}
}

// Two live agents, each sure to be the only one.
func TestTwoAgents(t *testing.T) {
	cluster := newCluster()
	agents := []*Journal{agent(t, cluster, interceptor.Funcs{}), agent(t, cluster, interceptor.Funcs{})}
	heads := make([]journal.Head, len(agents))
	var accepted, refused atomic.Int64
	var group errgroup.Group
	for i, j := range agents {
		group.Go(func() (err error) {
			for range 50 {
				content, err := journaltest.Read(t.Context(), j)
				if err != nil {
					return err
				}
				if heads[i], err = j.Append(t.Context(), content.Head, [][]byte{[]byte("the last unit")}); err == nil {
					accepted.Add(1)
				} else if errors.Is(err, journal.ErrConflict) {
					refused.Add(1)
				} else {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	content := load(t, agents[0])
	if content.Head.Revision != uint64(accepted.Load()) || accepted.Load()+refused.Load() != 100 {
		t.Errorf("%d appends succeeded, %d were refused, the journal holds %d",
			accepted.Load(), refused.Load(), content.Head.Revision)
	}
	// Certainly one after the other, on the same head.
	for i, j := range agents {
		heads[i] = load(t, j).Head
	}
	if _, err := agents[0].Append(t.Context(), heads[0], [][]byte{[]byte("first")}); err != nil {
		t.Error(err)
	}
	if _, err := agents[1].Append(t.Context(), heads[1], [][]byte{[]byte("second")}); !errors.Is(err,
		journal.ErrConflict) {
		t.Errorf("append: %v, want ErrConflict", err)
	}
}

func TestFull(t *testing.T) {
	cluster := newCluster()
	j := agent(t, cluster, interceptor.Funcs{})
	j.limits.parts = 0
	head, err := load(t, j).Head, error(nil)
	appended := 0
	for ; err == nil && appended < 100; appended++ {
		var next journal.Head
		if next, err = j.Append(t.Context(), head, [][]byte{make([]byte, 200_000)}); err == nil {
			head = next
		}
	}
	if !errors.Is(err, journal.ErrFull) || !strings.Contains(err.Error(), "921600") {
		t.Fatalf("after %d appends of 200 kB: %v, want ErrFull with the limit", appended, err)
	}
	noise := make([]byte, MaxSize)
	rand.NewChaCha8([32]byte{}).Read(noise)
	if err := j.Snapshot(t.Context(), head, journal.State(noise)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("snapshot of %d random bytes: %v, want ErrFull", len(noise), err)
	}
	if err := j.Snapshot(t.Context(), head, journal.State(make([]byte, MaxState+1))); !errors.Is(err, journal.ErrFull) {
		t.Errorf("snapshot of %d bytes: %v, want ErrFull", MaxState+1, err)
	}
	if err := j.Snapshot(t.Context(), head, journal.State(make([]byte, MaxSize))); err != nil { // the remedy: it packs well
		t.Error(err)
	}
	if _, err := j.Append(t.Context(), head, [][]byte{make([]byte, 200_000)}); err != nil {
		t.Error(err)
	}
}

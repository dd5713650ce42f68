package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	discovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/bourse-dev/bourse/api"
)

const patience = time.Minute

// eventually waits for a signal after which what is measured satisfies what.
func eventually(t *testing.T, i *Inventory, what func(Measured) bool) {
	t.Helper()
	deadline := time.After(patience)
	for !what(i.Measure([]api.PoolPolicy{general}, nil)) {
		select {
		case <-i.Changed():
		case <-deadline:
			t.Fatalf("still %+v", i.Measure([]api.PoolPolicy{general}, nil))
		}
	}
}

func amountIs(of func(api.Pool) api.Resources, name, amount string) func(Measured) bool {
	return func(m Measured) bool { return plain(of(m.Pools[api.GeneralPool]))[name] == amount }
}

func allocatable(p api.Pool) api.Resources { return p.Allocatable }
func allocated(p api.Pool) api.Resources   { return p.Allocated }

func TestRunFollowsACluster(t *testing.T) {
	client := fake.NewClientset(aNode("a", "cpu", "4"), aPod("p", "a", "cpu", "1"), aPod("waiting", "", "cpu", "2"),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}})
	client.Discovery().(*discovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.35.4"}
	// The fake does not replay what happens between a list and its watch: changes wait for all watches.
	opened := make(chan struct{}, 3)
	client.PrependWatchReactor("*", func(action kubetesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), "")
		select {
		case opened <- struct{}{}:
		default:
		}
		return true, w, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	i := New(client, Options{})
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	for range cap(opened) {
		<-opened
	}
	<-i.Synced()

	eventually(t, i, func(m Measured) bool {
		return amountIs(allocated, "cpu", "1")(m) && m.Properties.Kubernetes == "v1.35.4" &&
			len(m.Properties.StorageClasses) == 1
	})
	_, err := client.CoreV1().Nodes().Create(ctx, aNode("b", "cpu", "8"), metav1.CreateOptions{})
	must(t, err)
	eventually(t, i, amountIs(allocatable, "cpu", "12"))
	bound := aPod("waiting", "b", "cpu", "2")
	_, err = client.CoreV1().Pods("default").Update(ctx, bound, metav1.UpdateOptions{})
	must(t, err)
	eventually(t, i, amountIs(allocated, "cpu", "3"))
	must(t, client.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{}))
	eventually(t, i, amountIs(allocated, "cpu", "2"))
	must(t, client.CoreV1().Nodes().Delete(ctx, "b", metav1.DeleteOptions{}))
	eventually(t, i, amountIs(allocatable, "cpu", "4"))

	cancel()
	must(t, <-ended)
}

// streaming follows pods with list and open and gives the inventory, which ends with the test.
func streaming(t *testing.T, client any, list lister[*corev1.PodList], open opener) *Inventory {
	i := New(nil, Options{})
	must(t, i.nodes.Replace([]any{aNode("n", "cpu", "64")}, "1"))
	must(t, i.storageClasses.Replace(nil, "1"))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { follow(ctx, client, i.pods, list, open, countingPods) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return i
}

// A server that streams its state is never asked for a list, not even after watches that break.
func TestFollowStreamsWhereItCan(t *testing.T) {
	noList := func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
		t.Error("a list was asked for")
		return nil, errors.New("no lists here")
	}
	watches := make(chan *watch.FakeWatcher)
	i := streaming(t, nil, noList, func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		if options.FieldSelector != countingPods {
			t.Errorf("field selector %q", options.FieldSelector)
		}
		w := watch.NewFake()
		select {
		case watches <- w:
			return w, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	w := <-watches
	w.Add(aPod("a", "n", "cpu", "1"))
	w.Add(aPod("b", "n", "cpu", "2"))
	w.Modify(aPod("b", "n", "cpu", "4"))
	select {
	case <-i.Synced():
		t.Fatal("synced before the server said that this was all")
	default:
	}
	w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	<-i.Synced()
	eventually(t, i, amountIs(allocated, "cpu", "5"))
	w.Delete(aPod("a", "n", "cpu", "1"))
	eventually(t, i, amountIs(allocated, "cpu", "4"))

	w.Stop()
	w = <-watches
	w.Add(aPod("c", "n", "cpu", "8"))
	eventually(t, i, amountIs(allocated, "cpu", "12"))
}

// A server that cannot stream is listed once, in pages.
func TestFollowListsInPagesWhereItMust(t *testing.T) {
	var asked []string
	list := func(_ context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		asked = append(asked, fmt.Sprintf("version %q, from %q, at most %d, %s",
			options.ResourceVersion, options.Continue, options.Limit, options.FieldSelector))
		if options.Continue == "" {
			return &corev1.PodList{
				ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "page 2"},
				Items:    []corev1.Pod{*aPod("a", "n", "cpu", "1"), *aPod("waiting", "", "cpu", "1")},
			}, nil
		}
		return &corev1.PodList{
			ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			Items:    []corev1.Pod{*aPod("b", "n", "cpu", "2")},
		}, nil
	}
	opened := make(chan metav1.ListOptions, 1)
	i := streaming(t, cannotStream{}, list, func(ctx context.Context,
		options metav1.ListOptions) (watch.Interface, error) {
		opened <- options
		return watch.NewFake(), nil
	})
	<-i.Synced()
	eventually(t, i, amountIs(allocated, "cpu", "3"))
	if options := <-opened; options.ResourceVersion != "7" || options.FieldSelector != countingPods {
		t.Errorf("watched from %+v", options)
	}
	want := []string{
		`version "", from "", at most 500, ` + countingPods,
		`version "", from "page 2", at most 500, ` + countingPods,
	}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

type cannotStream struct{}

func (cannotStream) IsWatchListSemanticsUnSupported() bool { return true }

// An API server that does not tell its version is followed, and asked again.
func TestTheVersionIsAskedForWithEachWatch(t *testing.T) {
	client := fake.NewClientset()
	server := client.Discovery().(*discovery.FakeDiscovery)
	answer := errors.New("not now")
	client.PrependReactor("get", "version", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, answer
	})
	server.FakedServerVersion = &version.Info{GitVersion: "v1.36.0"}
	i := byHand(t, Options{})
	i.client = client
	opened := 0
	open := i.versionThen(func(context.Context, metav1.ListOptions) (watch.Interface, error) { opened++; return nil, nil })
	for _, want := range []string{"", "v1.36.0", "v1.36.0"} {
		_, err := open(t.Context(), metav1.ListOptions{})
		must(t, err)
		if got := i.Measure(nil, nil).Properties.Kubernetes; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		answer = nil
	}
	if !heard(i) || heard(i) || opened != 3 {
		t.Errorf("opened %d watches", opened)
	}
}

package kubeapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// verbs counts what a server is asked for configmaps.
func verbs(api *kubeapi.API) func(verb string) int64 {
	counts := map[string]*atomic.Int64{"list": {}, "watch": {}}
	api.Fault(kubeapi.Faults{Before: func(verb, resource, _, _ string) error {
		if n := counts[verb]; n != nil && resource == "configmaps" {
			n.Add(1)
		}
		return nil
	}})
	return func(verb string) int64 { return counts[verb].Load() }
}

// The reflector of client-go streams its list, resumes after a disconnect, and lists again when its revision has
// expired. Time is simulated: its back-off costs nothing.
func TestReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(kubeapi.Options{History: 10})
		asked := verbs(api)
		client := kubernetes.NewForConfigOrDie(api.Config())
		maps := client.CoreV1().ConfigMaps("ns")
		ctx, stop := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(client, 0)
		defer factory.Shutdown()
		defer stop()
		store := factory.Core().V1().ConfigMaps().Informer().GetStore()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		create := func(name string) {
			must(maps.Create(ctx, configMap(name), metav1.CreateOptions{}))
		}
		expect := func(objects int, watches int64) {
			t.Helper()
			time.Sleep(2 * time.Minute) // longer than any back-off; in this bubble it takes no time
			if got := len(store.ListKeys()); got != objects {
				t.Errorf("the cache has %d objects, want %d", got, objects)
			}
			if got := asked("watch"); got != watches {
				t.Errorf("%d watches, want %d", got, watches)
			}
			if got := asked("list"); got != 0 {
				t.Errorf("%d lists: the stream did not do", got)
			}
		}

		create("a")
		expect(1, 1)
		api.Disconnect()
		create("b")
		expect(2, 2) // resumed
		api.Down(true)
		expect(2, 2)
		api.Down(false)
		expect(2, 3)

		// Down for longer than the past is remembered: 410, and a new stream.
		api.Down(true)
		expect(2, 3)
		api.Down(false)
		if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			create(fmt.Sprint("more-", i))
		}
		expect(21, 5)
	})
}

// After any events in any order, a cache has the stored objects.
func TestCachesConverge(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			api := newAPI(kubeapi.Options{History: 4, Seed: seed + 1})
			client := kubernetes.NewForConfigOrDie(api.Config())
			maps := client.CoreV1().ConfigMaps("ns")
			ctx, stop := context.WithCancel(t.Context())
			factory := informers.NewSharedInformerFactoryWithOptions(client,
				0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
					o.LabelSelector = "seen=yes"
				}))
			defer factory.Shutdown()
			defer stop()
			store := factory.Core().V1().ConfigMaps().Informer().GetStore()
			factory.Start(ctx.Done())
			for range 200 {
				name := string(rune('a' + random.IntN(5)))
				cm := configMap(name)
				cm.Labels = map[string]string{"seen": []string{"yes", "no"}[random.IntN(2)]}
				switch random.IntN(8) {
				case 0, 1:
					_, _ = maps.Create(ctx, cm, metav1.CreateOptions{})
				case 2, 3, 4:
					_, _ = maps.Update(ctx, cm, metav1.UpdateOptions{})
				case 5:
					_ = maps.Delete(ctx, name, metav1.DeleteOptions{})
				case 6:
					api.Disconnect()
				case 7:
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
				}
			}
			time.Sleep(2 * time.Minute)
			want := map[string]string{}
			for _, cm := range must(maps.List(ctx, metav1.ListOptions{LabelSelector: "seen=yes"})).Items {
				want[cm.Name] = cm.ResourceVersion
			}
			got := map[string]string{}
			for _, o := range store.List() {
				cm := o.(*corev1.ConfigMap)
				got[cm.Name] = cm.ResourceVersion
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d: the cache has %v, the server %v", seed, got, want)
			}
		})
	}
}

// A watch whose selector lets nothing through is kept young by bookmarks.
func TestBookmarksForTheQuiet(t *testing.T) {
	api := newAPI(kubeapi.Options{History: 8})
	maps := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().ConfigMaps("ns")
	first := must(maps.Create(t.Context(), configMap("first"), metav1.CreateOptions{}))
	start := metav1.ListOptions{ResourceVersion: first.ResourceVersion,
		AllowWatchBookmarks: true, FieldSelector: "metadata.name=quiet"}
	w := must(maps.Watch(t.Context(), start))
	last := first.ResourceVersion
	for i := range 30 {
		must(maps.Create(t.Context(), configMap(fmt.Sprint("loud-", i)), metav1.CreateOptions{}))
		if i%3 == 2 {
			e := <-w.ResultChan()
			if e.Type != watch.Bookmark {
				t.Fatalf("got %v", e)
			}
			last = e.Object.(*corev1.ConfigMap).ResourceVersion
		}
	}
	w.Stop()
	start.ResourceVersion = last
	resumed := must(maps.Watch(t.Context(), start))
	must(maps.Create(t.Context(), configMap("quiet"), metav1.CreateOptions{}))
	if e := <-resumed.ResultChan(); e.Type != watch.Added {
		t.Errorf("resumed from a bookmark: %v", e)
	}
	resumed.Stop()
	start.ResourceVersion = first.ResourceVersion
	expired := must(maps.Watch(t.Context(), start))
	defer expired.Stop()
	if e := <-expired.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("resumed from where it began: %v", e)
	}
}

// A watch that is not read falls out of the past and is told so; it holds up
// nobody and nothing is kept for it.
func TestSlowWatch(t *testing.T) {
	api := newAPI(kubeapi.Options{History: 8})
	maps := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().ConfigMaps("ns")
	w := must(maps.Watch(t.Context(), metav1.ListOptions{}))
	defer w.Stop()
	for i := range 100 {
		must(maps.Create(t.Context(), configMap(fmt.Sprintf("m-%03d", i)), metav1.CreateOptions{}))
	}
	var names []string
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) {
				t.Errorf("got %v", err)
			}
			continue
		}
		names = append(names, e.Object.(*corev1.ConfigMap).Name)
	}
	for i, name := range names { // what it did get has no gap
		if want := fmt.Sprintf("m-%03d", i); name != want {
			t.Fatalf("got %v", names)
		}
	}
	if len(names) == 100 {
		t.Error("nothing was lost: the watch was not slow")
	}
}

// A server that outlives its clients holds on to none of them.
func TestManyWatchesEnd(t *testing.T) {
	api := newAPI(kubeapi.Options{})
	maps := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().ConfigMaps("ns")
	var watches []watch.Interface
	for range 100 {
		watches = append(watches, must(maps.Watch(t.Context(), metav1.ListOptions{})))
	}
	must(maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{}))
	for _, w := range watches {
		if e := <-w.ResultChan(); e.Type != watch.Added {
			t.Fatalf("got %v", e)
		}
	}
	for _, w := range slices.Backward(watches) {
		w.Stop()
	}
}

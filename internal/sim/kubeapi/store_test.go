package kubeapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// dump is all that a server holds of some types, as it answers.
func dump(t *testing.T, api *kubeapi.API) string {
	server := httptest.NewServer(api.Handler())
	defer server.Close()
	var all strings.Builder
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/configmaps", "/apis/kubeapitest.bourse.dev/v1/widgets"} {
		answer := must(http.Get(server.URL + path))
		all.Write(must(io.ReadAll(answer.Body)))
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, answer.Status)
		}
	}
	return all.String()
}

func TestSameSeedSameBytes(t *testing.T) {
	run := func(seed uint64) string {
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		api := newAPI(kubeapi.Options{Seed: seed, Clock: func() time.Time { return now }})
		maps := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().ConfigMaps("ns")
		for range 5 {
			cm := configMap("")
			cm.GenerateName = "gen-"
			must(maps.Create(t.Context(), cm, metav1.CreateOptions{}))
			now = now.Add(time.Minute)
		}
		return dump(t, api)
	}
	if one, again := run(1), run(1); one != again {
		t.Error("one seed gave two results")
	}
	if run(1) == run(2) {
		t.Error("two seeds gave one result")
	}
	if one, other := run(0), run(0); one == other {
		t.Error("without a seed two servers are the same")
	}
}

// Objects are limited as by etcd, so that what outgrows a real cluster does not
// fit here either.
func TestObjectTooLarge(t *testing.T) {
	maps := kubernetes.NewForConfigOrDie(newAPI(kubeapi.Options{}).Config()).CoreV1().ConfigMaps("ns")
	cm := configMap("a")
	cm.Data = map[string]string{"k": strings.Repeat("x", 1<<20)}
	made := must(maps.Create(t.Context(), cm, metav1.CreateOptions{}))
	made.Data["l"] = made.Data["k"]
	if _, err := maps.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("an object of 2 MiB: %v", err)
	}
	if got := must(maps.Get(t.Context(), "a", metav1.GetOptions{})); len(got.Data) != 1 {
		t.Error("a refused update changed the object")
	}
}

// Clients that prefer protobuf send it and are answered in JSON.
func TestProtobufClient(t *testing.T) {
	cfg := newAPI(kubeapi.Options{}).Config()
	cfg.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}
	maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("ns")
	cm := configMap("a")
	cm.Data = map[string]string{"k": "v"}
	must(maps.Create(t.Context(), cm, metav1.CreateOptions{}))
	if got := must(maps.Get(t.Context(), "a", metav1.GetOptions{})); got.Data["k"] != "v" {
		t.Errorf("got %v", got)
	}
	if err := maps.Delete(t.Context(), "a", *metav1.NewPreconditionDeleteOptions("other")); !apierrors.IsConflict(err) {
		t.Errorf("options of a delete are not read: %v", err)
	}
}

func TestNamespaceTakesItsContentAlong(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(newAPI(kubeapi.Options{}).Config())
	for _, ns := range []string{"kept", "gone"} {
		must(client.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("a"), metav1.CreateOptions{}))
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	must(client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}))
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left := must(client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})).Items
	if len(left) != 1 || left[0].Namespace != "kept" {
		t.Errorf("left is %v", left)
	}
}

// A leader that cannot reach its server loses the lease to the other, after its
// full time and not before. The clock is simulated.
func TestLeaderLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(kubeapi.Options{})
		ctx, stop := context.WithCancel(t.Context())
		leads := make(chan string, 10)
		ended := make(chan struct{})
		var cut atomic.Bool // the first one
		contend := func(id string) {
			cfg := api.Config()
			inner := cfg.Transport
			cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if id == "first" && cut.Load() {
					return nil, fmt.Errorf("%s is cut off", id)
				}
				return inner.RoundTrip(r)
			})
			lock := &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "lock"},
				Client:     kubernetes.NewForConfigOrDie(cfg).CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: id},
			}
			e := must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leads <- id },
					OnStoppedLeading: func() {},
				},
			}))
			go func() { e.Run(ctx); ended <- struct{}{} }()
		}
		contend("first")
		if got := <-leads; got != "first" {
			t.Fatalf("%s leads", got)
		}
		contend("second")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		cut.Store(true)
		began := time.Now()
		if got := <-leads; got != "second" {
			t.Fatalf("%s leads", got)
		}
		if took := time.Since(began); took < 10*time.Second || took > 25*time.Second {
			t.Errorf("taken over after %v", took)
		}
		lease := must(kubernetes.NewForConfigOrDie(api.Config()).CoordinationV1().Leases("ns").Get(ctx,
			"lock", metav1.GetOptions{}))
		if n := *lease.Spec.LeaseTransitions; n != 1 {
			t.Errorf("the lease went over %d times", n)
		}
		stop()
		<-ended
		<-ended
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

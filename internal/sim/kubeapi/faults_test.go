package kubeapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// bothWays runs a test over the in-process transport and over a socket: a fault
// must look the same.
func bothWays(t *testing.T, test func(t *testing.T, api *kubeapi.API, cfg *rest.Config)) {
	t.Run("in process", func(t *testing.T) {
		api := newAPI(kubeapi.Options{})
		test(t, api, api.Config())
	})
	t.Run("over a socket", func(t *testing.T) {
		api := newAPI(kubeapi.Options{})
		server := httptest.NewServer(api.Handler())
		defer server.Close()
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		test(t, api, &rest.Config{Host: server.URL, Transport: transport, QPS: -1})
	})
}

func TestFaults(t *testing.T) {
	bothWays(t, func(t *testing.T, api *kubeapi.API, cfg *rest.Config) {
		maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("ns")
		on := func(verb string, err error) func(string, string, string, string) error {
			return func(v, resource, ns, name string) error {
				if v == verb && resource == "configmaps" && ns == "ns" {
					return err
				}
				return nil
			}
		}
		exists := func(name string) bool {
			_, err := maps.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return err == nil
		}
		create := func(name string) error {
			_, err := maps.Create(t.Context(), configMap(name), metav1.CreateOptions{})
			return err
		}

		api.Fault(kubeapi.Faults{Before: on("create", errors.New("cable cut"))})
		if err := create("a"); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("a request lost on its way: %v", err)
		}
		api.Fault(kubeapi.Faults{Before: on("create", apierrors.NewTooManyRequestsError("not now"))})
		if err := create("a"); !apierrors.IsTooManyRequests(err) {
			t.Errorf("a request refused: %v", err)
		}
		if exists("a") {
			t.Error("a request that failed before was carried out")
		}
		api.Fault(kubeapi.Faults{After: on("create", errors.New("cable cut"))})
		if err := create("a"); err == nil {
			t.Error("a lost answer arrived")
		}
		if !exists("a") {
			t.Error("a request whose answer was lost was not carried out")
		}
		api.Fault(kubeapi.Faults{})
		if err := create("a"); !apierrors.IsAlreadyExists(err) {
			t.Errorf("the request again: %v", err)
		}
	})
}

func TestDown(t *testing.T) {
	bothWays(t, func(t *testing.T, api *kubeapi.API, cfg *rest.Config) {
		maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("ns")
		made, err := maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		api.Down(true)
		for e := range w.ResultChan() {
			t.Errorf("event of a server that is down: %v", e)
		}
		// Not a read: clients repeat those ten times when a connection breaks.
		_, err = maps.Create(t.Context(), configMap("b"), metav1.CreateOptions{})
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || err == nil {
			t.Errorf("a server that is down answered: %v", err)
		}
		api.Down(false)
		if got, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || got.UID != made.UID {
			t.Errorf("after it is up again: %v, %v", got, err)
		}
	})
}

func TestDownIsConnectionRefused(t *testing.T) {
	api := newAPI(kubeapi.Options{})
	api.Down(true)
	_, err := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !errors.Is(err, syscall.ECONNREFUSED) { // what reflectors wait for instead of listing again
		t.Errorf("got %v", err)
	}
}

// A client that goes away takes its watch with it, and one that waits for an
// answer does not have to.
func TestCancel(t *testing.T) {
	api := newAPI(kubeapi.Options{})
	maps := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().ConfigMaps("ns")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range w.ResultChan() { // ends
	}

	ctx, cancel = context.WithCancel(t.Context())
	proceed := make(chan struct{})
	var served atomic.Bool
	api.Fault(kubeapi.Faults{Before: func(string, string, string, string) error {
		cancel()
		<-proceed
		served.Store(true)
		return nil
	}})
	if _, err := maps.List(ctx, metav1.ListOptions{}); !errors.Is(err, context.Canceled) || served.Load() {
		t.Errorf("a cancelled request: %v, served %v", err, served.Load())
	}
	close(proceed)
}

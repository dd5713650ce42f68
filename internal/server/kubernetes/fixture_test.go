package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	serve "github.com/bourse-dev/bourse/internal/server/kubernetes"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a broker that serves members through a simulated cluster of its own.
type fixture struct {
	*servertest.Federation
	t       testing.TB
	cluster *kubeapi.API
	kube    ctrlclient.Client
	log     *slog.Logger // of the broker's half
	stop    func()
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{Federation: servertest.Start(t, servertest.Options{}), t: t, log: servertest.Silent()}
	w.cluster = kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: kubernetes.GroupVersion, Kind: kubernetes.Advertisements.Kind,
			Resource: "clusteradvertisements", Namespaced: true, Status: true},
		{GroupVersion: kubernetes.GroupVersion, Kind: kubernetes.Reservations.Kind,
			Resource: "reservations", Namespaced: true, Status: true},
		{GroupVersion: rbacv1.SchemeGroupVersion, Kind: "RoleBinding", Resource: "rolebindings", Namespaced: true},
	}})
	w.kube = must(ctrlclient.New(w.cluster.Config(), ctrlclient.Options{}))(t)
	w.serve()
	t.Cleanup(func() { w.stop() })
	return w
}

// serve starts the broker's half; stop ends it.
func (w *fixture) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, serve.Options{Server: w.Server, Cluster: w.cluster.Config(),
			Again: 300 * time.Millisecond, Log: w.log})
	}()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("serve: %v", err)
		}
		w.stop = func() {}
	}
}

// bind makes the namespace of a cluster that is no member, as an admin does, and waits for its
// ClusterAdvertisement.
func (w *fixture) bind(cluster string) {
	w.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kubernetes.Namespace(cluster),
		Labels: map[string]string{kubernetes.ClusterLabel: cluster}}}
	if err := w.kube.Create(context.Background(), ns); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the ClusterAdvertisement of "+cluster, func() error { _, err := w.advertisement(cluster); return err })
}

func (w *fixture) advertisement(cluster string) (*unstructured.Unstructured, error) {
	return w.object(kubernetes.Object(kubernetes.Advertisements,
		kubernetes.Namespace(cluster), kubernetes.AdvertisementName(cluster)))
}

func (w *fixture) object(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return u, w.kube.Get(context.Background(), ctrlclient.ObjectKeyFromObject(u), u)
}

// line is a client of the REST API that goes through objects.
func (w *fixture) line(cluster string) *client.Client {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	l := must(kubernetes.Open(ctx, cluster, &kubernetes.Access{Config: w.cluster.Config(),
		Namespace: kubernetes.Namespace(cluster)}, servertest.Silent()))(w.t)
	return client.New("https://broker.cluster", &http.Client{Transport: l})
}

// join makes a cluster a member that reaches the broker through objects, and shows its card.
func (w *fixture) join(name string) (*transporttest.Party, *client.Client) {
	w.t.Helper()
	w.bind(name)
	p, c := transporttest.NewParty(w.t, name), w.line(name)
	card := p.Card(api.Properties{Region: "eu"})
	if err := c.PutCard(context.Background(), name, card); api.CodeOf(err) != api.CodeNotMember {
		w.t.Fatalf("the first card of a stranger: %v", err)
	}
	if _, err := w.Operator.SetMember(context.Background(), name, "approve"); err != nil {
		w.t.Fatal(err)
	}
	if err := c.PutCard(context.Background(), name, card); err != nil {
		w.t.Fatal(err)
	}
	return p, c
}

func (w *fixture) eventually(what string, ask func() error) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	w.t.Fatalf("not within 10s: %s: %v", what, err)
}

// patch writes in an object what no agent would.
func (w *fixture) patch(u ctrlclient.Object, patch any, status bool) {
	w.t.Helper()
	raw := ctrlclient.RawPatch(types.MergePatchType, must(json.Marshal(patch))(w.t))
	var err error
	if status {
		err = w.kube.Status().Patch(context.Background(), u, raw)
	} else {
		err = w.kube.Patch(context.Background(), u, raw)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// status reads that of a ClusterAdvertisement.
func (w *fixture) status(cluster string) (s kubernetes.Status) {
	w.t.Helper()
	u, err := w.advertisement(cluster)
	if err == nil {
		err = kubernetes.Part(u, "status", &s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func keyOf(o ctrlclient.Object) ctrlclient.ObjectKey { return ctrlclient.ObjectKeyFromObject(o) }

var errNotYet = fmt.Errorf("not yet")

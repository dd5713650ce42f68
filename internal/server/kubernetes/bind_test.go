package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	serve "github.com/bourse-dev/bourse/internal/server/kubernetes"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// bound says what is missing until a token of a cluster's account is worth something.
func (w *fixture) bound(cluster string) error {
	ctx, namespace := context.Background(), &corev1.Namespace{}
	if err := w.kube.Get(ctx, ctrlclient.ObjectKey{Name: kubernetes.Namespace(cluster)}, namespace); err != nil {
		return err
	}
	if of := namespace.Labels[kubernetes.ClusterLabel]; of != cluster {
		return fmt.Errorf("its namespace is of %q", of)
	}
	binding := &rbacv1.RoleBinding{}
	if err := w.kube.Get(ctx, accountKey(cluster), binding); err != nil {
		return err
	}
	want := rbacv1.Subject{Kind: "ServiceAccount", Name: "bourse-member", Namespace: namespace.Name}
	if r := binding.RoleRef; r.Kind != "ClusterRole" || r.Name != "bourse-member" ||
		!slices.Equal(binding.Subjects, []rbacv1.Subject{want}) {
		return fmt.Errorf("%+v binds %+v", r, binding.Subjects)
	}
	return w.account(cluster)
}

func accountKey(cluster string) ctrlclient.ObjectKey {
	return ctrlclient.ObjectKey{Namespace: kubernetes.Namespace(cluster), Name: kubernetes.Account}
}

// account is nil where a cluster has one.
func (w *fixture) account(cluster string) error {
	return w.kube.Get(context.Background(), accountKey(cluster), &corev1.ServiceAccount{})
}

// stays demands that something is so for as long as the broker looks twice.
func (w *fixture) stays(what string, ask func() error) {
	w.t.Helper()
	for until := time.Now().Add(800 * time.Millisecond); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if err := ask(); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
	}
}

func (w *fixture) noAccount(cluster string) func() error {
	return func() error {
		if err := w.account(cluster); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its account: %v", err)
		}
		return nil
	}
}

func (w *fixture) step(cluster, step string) {
	w.t.Helper()
	if _, err := w.Operator.SetMember(context.Background(), cluster, step); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) delete(o ctrlclient.Object, key ctrlclient.ObjectKey) {
	w.t.Helper()
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	if err := w.kube.Delete(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
}

// Every approved member is bound, after any way to join, also if the broker was away. Deleted or changed objects come
// back.
func TestAMemberIsBoundWhenItIsApproved(t *testing.T) {
	w := newFixture(t)
	w.Join("milan")
	milan := func() error { return w.bound("milan") }
	w.eventually("milan is bound", milan)
	w.eventually("and has a ClusterAdvertisement", func() error { _, err := w.advertisement("milan"); return err })

	w.delete(&rbacv1.RoleBinding{}, accountKey("milan"))
	w.eventually("its binding is back", milan)
	w.delete(&corev1.ServiceAccount{}, accountKey("milan"))
	w.eventually("its account is back", milan)
	binding := &rbacv1.RoleBinding{}
	if err := w.kube.Get(t.Context(), accountKey("milan"), binding); err != nil {
		t.Fatal(err)
	}
	w.patch(binding, map[string]any{"subjects": []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"}}},
		false)
	w.eventually("its binding is right again", milan)
	w.delete(&corev1.Namespace{}, ctrlclient.ObjectKey{Name: kubernetes.Namespace("milan")})
	w.eventually("its namespace is back", milan)

	w.stop()
	w.Join("oslo")
	w.serve()
	w.eventually("one that joined while the broker was away is bound", func() error { return w.bound("oslo") })

	// One that only knows objects asks with them first, from where an admin let it in.
	w.join("rome")
	w.eventually("rome is bound", func() error { return w.bound("rome") })
}

// While a member is suspended, nothing is made and nothing taken away.
func TestASuspendedMemberStaysBound(t *testing.T) {
	w := newFixture(t)
	w.Join("milan")
	w.eventually("it is bound", func() error { return w.bound("milan") })
	w.step("milan", "suspend")
	w.stays("what it has stays", func() error { return w.bound("milan") })
	w.delete(&corev1.ServiceAccount{}, accountKey("milan"))
	w.stays("and is not made", w.noAccount("milan"))
	w.step("milan", "resume")
	w.eventually("until it is resumed", func() error { return w.bound("milan") })
}

// The account of a revoked member is gone and stays gone, until an admin creates another.
func TestARevokedMemberIsNotBoundAgain(t *testing.T) {
	for _, step := range []string{"revoke", "remove"} {
		t.Run(step, func(t *testing.T) {
			w := newFixture(t)
			w.Join("milan")
			w.eventually("it is bound", func() error { return w.bound("milan") })
			w.step("milan", step)
			w.eventually("its account is gone", w.noAccount("milan"))
			w.delete(&rbacv1.RoleBinding{}, accountKey("milan"))
			w.stays("and stays so", w.noAccount("milan"))
			w.stop()
			w.serve()
			w.stays("when the broker is back, too", w.noAccount("milan"))
			if err := serve.Bind(t.Context(), w.kube, "milan"); err != nil {
				t.Fatal(err)
			}
			w.stays("the one that an admin made later stays", func() error { return w.bound("milan") })
		})
	}
}

// An account that the broker was about to make when the member was revoked is gone, too, though it
// is younger than the revocation.
func TestRevokedWhileItIsBound(t *testing.T) {
	w := newFixture(t)
	asked, goOn, made := make(chan struct{}), make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(asked); <-goOn })
	end := sync.OnceFunc(func() { close(made) })
	the := func(when func()) func(verb, resource, _, _ string) error {
		return func(verb, resource, _, _ string) error {
			if verb == "patch" && resource == "serviceaccounts" {
				when()
			}
			return nil
		}
	}
	w.cluster.Fault(kubeapi.Faults{Before: the(begin), After: the(end)})
	w.Join("milan")
	<-asked
	w.step("milan", "revoke")
	time.Sleep(1100 * time.Millisecond) // the account's time has whole seconds
	close(goOn)
	<-made
	w.eventually("it is gone", w.noAccount("milan"))
	w.stays("and stays so", w.noAccount("milan"))
}

// complaints are what the broker logs.
type complaints struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (c *complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

// about are the lines with a text.
func (c *complaints) about(text string) (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(c.text.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A broker that may not bind says so, once, and serves whom an admin prepared; with the rights it goes on.
func TestWithoutTheRights(t *testing.T) {
	for name, forbidden := range map[string][]string{
		"none": {"create namespaces", "list serviceaccounts",
			"watch serviceaccounts", "patch serviceaccounts", "list rolebindings", "watch rolebindings", "patch rolebindings"},
		"looks":        {"create namespaces", "patch serviceaccounts", "patch rolebindings"},
		"binds nobody": {"patch rolebindings"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.stop()
			said := &complaints{}
			w.log = slog.New(slog.NewTextHandler(said, nil))
			if err := serve.Bind(t.Context(), w.kube, "rome"); err != nil {
				t.Fatal(err)
			}
			w.cluster.Fault(kubeapi.Faults{Before: func(verb, resource, _, name string) error {
				if slices.Contains(forbidden, verb+" "+resource) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("nobody said so"))
				}
				return nil
			}})
			w.serve()
			w.Join("milan")
			once := func() error {
				if lines := said.about("cannot bind"); len(lines) != 1 ||
					!strings.Contains(lines[0], "forbidden") || !strings.Contains(lines[0], "kubectl apply -k config/kubernetes") {
					return fmt.Errorf("%q", lines)
				}
				return w.noAccount("milan")()
			}
			w.eventually("the broker says what it lacks", once)
			w.Join("oslo")
			w.stays("once", once)
			rome := transporttest.NewParty(t, "rome")
			if err := w.line("rome").PutCard(t.Context(), "rome",
				rome.Card(api.Properties{})); api.CodeOf(err) != api.CodeNotMember {
				t.Errorf("the first card of one that an admin prepared: %v", err)
			}
			w.step("rome", "approve")
			if err := w.line("rome").PutCard(t.Context(), "rome", rome.Card(api.Properties{})); err != nil {
				t.Errorf("and when it is approved: %v", err)
			}
			w.cluster.Fault(kubeapi.Faults{})
			if name == "none" { // what it watches it tries again by itself, but later than a test waits
				w.stop()
				w.serve()
			}
			for _, cluster := range []string{"milan", "oslo"} {
				w.eventually("with the rights it is bound: "+cluster, func() error { return w.bound(cluster) })
			}
		})
	}
}

// A namespace that is another's, or nobody's, is not taken over: its member is not bound, and others are.
func TestAnothersNamespaceIsNotTaken(t *testing.T) {
	w := newFixture(t)
	w.stop()
	said := &complaints{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	w.serve()
	for cluster, labels := range map[string]map[string]string{
		"milan": nil,
		"turin": {kubernetes.ClusterLabel: "oslo"},
		"genoa": {kubernetes.ClusterLabel: ""},
	} {
		there := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kubernetes.Namespace(cluster), Labels: labels}}
		if err := w.kube.Create(t.Context(), there); err != nil {
			t.Fatal(err)
		}
		before := there.ResourceVersion
		w.Join(cluster)
		remedy := "is not of cluster " + cluster
		w.eventually("it is said why", func() error {
			if len(said.about(remedy)) == 0 {
				return errNotYet
			}
			return nil
		})
		w.stays(cluster+"'s is left alone, and it is said once", func() error {
			if err := w.kube.Get(t.Context(), keyOf(there), there); err != nil || there.ResourceVersion != before {
				return fmt.Errorf("it is changed: %v, %v", there.Labels, err)
			}
			if lines := said.about(remedy); len(lines) != 1 ||
				!strings.Contains(lines[0], "label it bourse.dev/cluster="+cluster) {
				return fmt.Errorf("%q", lines)
			}
			if _, err := w.advertisement(cluster); !apierrors.IsNotFound(err) {
				return fmt.Errorf("a ClusterAdvertisement: %v", err)
			}
			return w.noAccount(cluster)()
		})
		if err := serve.Bind(t.Context(), w.kube, cluster); api.CodeOf(err) != api.CodeConflict {
			t.Errorf("an admin's command: %v", err)
		}
	}
	w.Join("rome")
	w.eventually("rome is bound", func() error { return w.bound("rome") })
	w.delete(&corev1.Namespace{}, ctrlclient.ObjectKey{Name: kubernetes.Namespace("turin")})
	w.eventually("turin is bound once its namespace is free", func() error { return w.bound("turin") })
	milans := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kubernetes.Namespace("milan")}}
	w.patch(milans,
		map[string]any{"metadata": map[string]any{"labels": map[string]string{kubernetes.ClusterLabel: "milan"}}}, false)
	w.eventually("milan is bound once its namespace is said to be its own", func() error { return w.bound("milan") })
}

// An agent of the prototypes that comes by HTTP accepts what it fetches. That it has a namespace,
// too, accepts nothing for it.
func TestAPrototypeByHTTPAcceptsByItself(t *testing.T) {
	w := newFixture(t)
	resourceagent.Serve(resourceagent.Options{Server: w.Server,
		Secret: bytes.Repeat([]byte{7}, 32), Wait: 2 * time.Minute, Log: servertest.Silent()})
	call := func(cluster, method, path string, body any) *httptest.ResponseRecorder {
		rest := w.Server.For(func(*http.Request) (server.Caller, error) {
			return server.Caller{Role: tlsid.RoleLegacy, Name: cluster}, nil
		})
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, bytes.NewReader(must(json.Marshal(body))(t)))
		r.Header.Set("Content-Type", "application/json")
		rest.ServeHTTP(answer, r)
		return answer
	}
	for _, cluster := range []string{"cluster-1", "cluster-2"} {
		amounts := map[string]any{"cpu": "8", "memory": "64Gi"}
		advertise := func() int {
			return call(cluster, http.MethodPost, "/api/v1/advertisements", map[string]any{
				"clusterID": cluster, "clusterName": cluster, "timestamp": time.Now().UTC(),
				"resources": map[string]any{"capacity": amounts, "allocatable": amounts,
					"allocated": map[string]any{"cpu": "0", "memory": "0"}, "available": amounts},
			}).Code
		}
		advertise()
		w.step(cluster, "approve")
		if code := advertise(); code >= 300 {
			t.Fatalf("its advertisement: %d", code)
		}
		w.eventually(cluster+" is bound", func() error { return w.bound(cluster) })
	}
	var reserved atomic.Int64
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		a := call("cluster-2", http.MethodPost, "/api/v1/reservations", map[string]any{
			"requesterID": "cluster-2", "targetClusterID": "cluster-1", "requestedResources": map[string]any{"cpu": "2",
				"memory": "1Gi"}, "duration": "1h0m0s",
		})
		reserved.Store(int64(a.Code))
	}()
	any := func(*unstructured.Unstructured) bool { return true }
	w.eventually("it is shown to cluster-1", func() error {
		if phase, _ := w.phase("cluster-1", any); phase != "Pending" {
			return fmt.Errorf("as %q", phase)
		}
		return nil
	})
	w.stays("nothing is accepted before cluster-1 fetches it", func() error {
		if phase, _ := w.phase("cluster-1", any); phase != "Pending" {
			return fmt.Errorf("it is %q", phase)
		}
		return nil
	})
	if a := call("cluster-1", http.MethodGet, "/api/v1/reservations?role=provider&clusterID=cluster-1",
		nil); a.Code != http.StatusOK {
		t.Fatalf("cluster-1 fetches: %d %s", a.Code, a.Body)
	}
	<-answered
	if code := reserved.Load(); code >= 300 {
		t.Errorf("cluster-2 got %d", code)
	}
	w.eventually("it is Reserved", func() error {
		if phase, _ := w.phase("cluster-1", any); phase != "Reserved" {
			return fmt.Errorf("it is %q", phase)
		}
		return nil
	})
}

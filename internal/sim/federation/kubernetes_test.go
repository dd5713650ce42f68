package federation_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Agents that reach the broker through objects trade with those that reach it by REST, in both directions, also after
// the broker or the cluster with the objects was away for a while.
func TestThroughObjects(t *testing.T) {
	t.Parallel()
	home := must(sim.NewCluster(t.Context(), sim.Options{Name: "home", Nodes: 1, Types: []kubeapi.Type{
		{GroupVersion: objects.GroupVersion, Kind: objects.Advertisements.Kind,
			Resource: "clusteradvertisements", Namespaced: true, Status: true},
		{GroupVersion: objects.GroupVersion, Kind: objects.Reservations.Kind,
			Resource: "reservations", Namespaced: true, Status: true},
		{GroupVersion: rbacv1.SchemeGroupVersion, Kind: "RoleBinding", Resource: "rolebindings", Namespaced: true},
	}}))(t)
	admin := must(kube.New(home.API.Config(), kube.Options{}))(t)
	through := func(cluster string) *objects.Access {
		t.Helper()
		namespace := objects.Namespace(cluster)
		if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
			Labels: map[string]string{objects.ClusterLabel: cluster}}}); err != nil {
			t.Fatal(err)
		}
		return &objects.Access{Config: home.API.Config(), Namespace: namespace}
	}
	all := &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}
	f := &fair{t: t,
		rome: &federation.Member{Options: sim.Options{Name: "rome", Nodes: 1}, Through: through("rome")},
		milan: &federation.Member{Options: sim.Options{Name: "milan", Nodes: 1, CPU: 8, Memory: 32},
			Sharing: all, Through: through("milan")},
		oslo: &federation.Member{Options: sim.Options{Name: "oslo", Nodes: 1, CPU: 8, Memory: 32}, Sharing: all},
	}
	ctx, stop := context.WithCancel(t.Context())
	f.Federation = must(federation.StartWith(ctx, t.TempDir(), slog.New(slog.DiscardHandler),
		prototypes.Options{Objects: true, Kubernetes: home.API.Config()}, f.rome, f.milan, f.oslo))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })
	for _, cluster := range []string{"rome", "milan"} {
		f.until(cluster+" asks to be admitted", func() bool {
			_,
				err := f.Operator.SetMember(ctx, cluster, "approve")
			return err == nil
		})
	}
	f.until("rome has shown its card, and both lend", func() bool {
		if c, err := f.Operator.Cluster(ctx, "rome"); err != nil || c.Payload.Card == "" {
			return false
		}
		e, err := f.rome.People.Evaluate(ctx, api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}})
		return err == nil && e.Decision.Candidates == 2
	})
	reserve := func(by *federation.Member, name, provider string) {
		t.Helper()
		must(by.People.MakeRequest(ctx, api.RequestCreate{Name: name,
			Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}, Target: provider}}))(t)
		f.becomes(by, name, func(s api.ResourceRequestStatus) bool { return s.State == api.Reserved })
	}
	release := func(of *federation.Member, name, provider string) {
		t.Helper()
		id := must(of.People.Request(ctx, "default", name))(t).Payload.Status.Reservation
		if err := of.Objects.Delete(ctx,
			&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			t.Fatal(err)
		}
		f.until("it is Released", func() bool {
			r, err := f.Members[provider].People.Reservation(ctx, id)
			return err == nil && r.Payload.State == api.Released
		})
	}
	f.until("each is bound, oslo too, which came by REST", func() bool {
		bound := true
		for _, cluster := range []string{"rome", "milan", "oslo"} {
			key := kube.ObjectKey{Namespace: objects.Namespace(cluster), Name: objects.Account}
			bound = bound && admin.Get(ctx, key, &corev1.ServiceAccount{}) == nil &&
				admin.Get(ctx, key, &rbacv1.RoleBinding{}) == nil
		}
		return bound
	})
	reserve(f.rome, "through-both", "milan")
	reserve(f.rome, "to-oslo", "oslo")
	reserve(f.oslo, "to-milan", "milan")
	release(f.oslo, "to-milan", "milan")

	// By HTTP the prototypes' interface is not there: nobody asked for it.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	answer := must((&http.Client{Transport: transport}).Get(f.URL + "/api/v1/instructions"))(t)
	if said := must(io.ReadAll(answer.Body))(t); answer.StatusCode != http.StatusNotFound ||
		!strings.Contains(string(said), "--broker-interface both") {
		t.Errorf("%d %s", answer.StatusCode, said)
	}
	_ = answer.Body.Close()

	f.Broker.Stop()
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	release(f.rome, "to-oslo", "oslo")

	home.API.Down(true)
	f.until("rome knows that the broker cannot be reached", func() bool {
		s, err := f.rome.People.Status(ctx)
		return err == nil && !s.Connected
	})
	home.API.Down(false)
	release(f.rome, "through-both", "milan")
	home.API.Disconnect()
	reserve(f.rome, "again", "milan")
}

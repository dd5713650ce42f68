package robustness

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	bourse "github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// cluster is a real agent, with its own gate and Ledger, over a simulated cluster of one node.
type cluster struct {
	t      *testing.T
	name   string
	kube   kube.Client
	people *bourse.Client
}

func logger() *slog.Logger {
	if os.Getenv("BOURSE_TEST_LOG") == "" {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.Default()
}

// startCluster starts the agent of a cluster, which joins and, if it shares, offers all its CPUs.
// It answers its people.
func startCluster(t *testing.T, operator *client.Client, name, cpus string, shares bool) *cluster {
	t.Helper()
	k := kubeapi.New(kubeapi.Options{Types: federation.Kinds()})
	objects, err := kube.New(k.Config(), kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse(cpus), "pods": resource.MustParse("110")}
	first := []kube.Object{&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-1"},
		Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}}
	if shares {
		first = append(first, &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
			Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}})
	}
	for _, o := range first {
		if err := objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	token, err := operator.CreateToken(t.Context(), name, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bourse")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	options := settings.Options{
		Kubernetes: k.Config(), Listen: settings.Listen{Socket: socket}, Log: logger().With("agent", name),
		Member: settings.Member{
			ClusterID: name, Join: token.Token, Identity: store.InDir(filepath.Join(dir, "identity")),
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, options) }()
	c := &cluster{t: t, name: name, kube: objects, people: bourse.At(client.New("unix://"+socket, nil), objects)}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent of %s ended: %v", name, err)
		}
		os.RemoveAll(dir)
	})
	eventually(t, "the agent of "+name+" answers its people", func(ctx context.Context) bool {
		_, err := c.people.Status(ctx)
		return err == nil
	})
	return c
}

// request makes a ResourceRequest for so many milli-CPU.
func (c *cluster) request(name string, milli int64) {
	c.t.Helper()
	if _, err := c.people.MakeRequest(c.t.Context(),
		api.RequestCreate{Name: name, Request: api.Request{Resources: cpu(milli)}}); err != nil {
		c.t.Fatal(err)
	}
}

// becomes waits until a request is in a state, and returns its reservation.
func (c *cluster) becomes(name string, state api.State) (reservation string) {
	c.t.Helper()
	eventually(c.t, "request "+name+" is "+string(state), func(ctx context.Context) bool {
		r, err := c.people.Request(ctx, "default", name)
		reservation = r.Payload.Status.Reservation
		return err == nil && r.Payload.Status.State == state
	})
	return reservation
}

// reserve makes a request that becomes Reserved.
func (c *cluster) reserve(name string, milli int64) string {
	c.t.Helper()
	c.request(name, milli)
	return c.becomes(name, api.Reserved)
}

// connected waits until the agent hears its broker, or no longer does.
func (c *cluster) connected(want bool) {
	c.t.Helper()
	eventually(c.t, "the agent of "+c.name+" knows how it stands with its broker", func(ctx context.Context) bool {
		s, err := c.people.Status(ctx)
		return err == nil && s.Connected == want
	})
}

// instructed reads the state of an instruction of this cluster, as its consumer or as its provider;
// "" if there is none.
func (c *cluster) instructed(id string, as kube.Object) api.State {
	key := kube.ObjectKey{Namespace: "default", Name: id}
	if _, provides := as.(*api.ProviderInstruction); provides {
		key.Namespace = api.Namespace
	}
	if c.kube.Get(c.t.Context(), key, as) != nil {
		return ""
	}
	switch o := as.(type) {
	case *api.ReservationInstruction:
		return o.Status.State
	case *api.ProviderInstruction:
		return o.Status.State
	}
	return ""
}

// bound says in which of the two clusters a reservation is not Reserved.
func bound(consumer, provider *cluster, ids ...string) (problems []string) {
	for _, id := range ids {
		if is := consumer.instructed(id, &api.ReservationInstruction{}); is != api.Reserved {
			problems = append(problems, fmt.Sprintf("reservation %s is %q in %s", id, is, consumer.name))
		}
		if is := provider.instructed(id, &api.ProviderInstruction{}); is != api.Reserved {
			problems = append(problems, fmt.Sprintf("reservation %s is %q in %s", id, is, provider.name))
		}
	}
	return problems
}

// agreed makes a request that binds both clusters.
func agreed(consumer, provider *cluster, name string, milli int64) (id string) {
	consumer.t.Helper()
	id = consumer.reserve(name, milli)
	eventually(consumer.t, "both clusters are instructed",
		func(context.Context) bool { return bound(consumer, provider, id) == nil })
	return id
}

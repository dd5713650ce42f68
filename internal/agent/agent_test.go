package agent_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	bourse "github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

func logger() *slog.Logger {
	if os.Getenv("BOURSE_TEST_LOG") == "" {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.Default()
}

func kinds() []kubeapi.Type {
	var types []kubeapi.Type
	for _, k := range []struct {
		kind, resource     string
		namespaced, status bool
	}{
		{"ResourceRequest", "resourcerequests", true, true}, {"ReservationInstruction", "reservationinstructions", true, true},
		{"ProviderInstruction", "providerinstructions", true, true}, {"SharingPolicy", "sharingpolicies", false, true},
		{"Advertisement", "advertisements", true, true}, {"Ledger", "ledgers", true, false}, {"Peering", "peerings", true, true}, {"Peer", "peers", true, true},
	} {
		types = append(types, kubeapi.Type{GroupVersion: api.GroupVersion, Kind: k.kind, Resource: k.resource, Namespaced: k.namespaced, Status: k.status})
	}
	return types
}

func node(name string, cpu, memory string) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"topology.kubernetes.io/region": "eu", "kubernetes.io/arch": "amd64"}},
		Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestSpine(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	dir := t.TempDir()
	ended := make(chan error, 8)
	ready := make(chan string, 1)
	go func() {
		ended <- broker.Run(ctx, broker.Options{Dir: filepath.Join(dir, "broker"), Listen: "127.0.0.1:0", Log: logger(), Ready: func(url string) { ready <- url }})
	}()
	var url string
	select {
	case url = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Log(url)
	operator := bourse.New("unix://"+filepath.Join(dir, "broker", "broker.sock"), nil)
	kube := map[string]client.Client{}
	for _, name := range []string{"rome", "milan"} {
		k := kubeapi.New(kubeapi.Options{Types: kinds()})
		c, err := client.New(k.Config(), client.Options{Scheme: agent.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		kube[name] = c
		if err := c.Create(ctx, node(name+"-1", "8", "32Gi")); err != nil {
			t.Fatal(err)
		}
		token, err := operator.CreateToken(ctx, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			ended <- agent.Run(ctx, agent.Options{Kubernetes: k.Config(), ClusterID: name, Join: token.Token,
				Identity: store.InDir(filepath.Join(dir, name)), Socket: filepath.Join(dir, name+".sock"), Log: logger().With("agent", name)})
		}()
	}
	policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: "general"}}}}
	if err := kube["milan"].Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	people := bourse.New("unix://"+filepath.Join(dir, "rome.sock"), nil)
	eventually(t, "milan is seen by rome", 20*time.Second, func() bool {
		clusters, err := people.Clusters(ctx)
		for _, c := range clusters {
			if c.ID == "milan" && c.Payload.Fresh {
				return true
			}
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		_ = err
		return false
	})
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "default"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}, Where: `region == "eu"`}}}
	if err := kube["rome"].Create(ctx, request); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	eventually(t, "the request is Reserved", 10*time.Second, func() bool {
		_ = kube["rome"].Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.State == api.Reserved
	})
	t.Logf("Reserved after %s: %s", time.Since(start), request.Status.Message)
	eventually(t, "instructions on both sides", 5*time.Second, func() bool {
		var ri api.ReservationInstruction
		var pi api.ProviderInstruction
		return kube["rome"].Get(ctx, client.ObjectKey{Namespace: "default", Name: request.Status.Reservation}, &ri) == nil &&
			kube["milan"].Get(ctx, client.ObjectKey{Namespace: "bourse", Name: request.Status.Reservation}, &pi) == nil &&
			ri.Status.State == api.Reserved && pi.Status.State == api.Reserved
	})
	available := func() string {
		c, err := people.Cluster(ctx, "milan")
		if err != nil {
			return err.Error()
		}
		q := c.Payload.Pools["general"].Available["cpu"]
		return q.String()
	}
	eventually(t, "4 of 8 are left", 5*time.Second, func() bool { return available() == "4" })
	if err := kube["rome"].Delete(ctx, request); err != nil {
		t.Fatal(err)
	}
	eventually(t, "8 of 8 are back", 10*time.Second, func() bool { return available() == "8" })
	cancel()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

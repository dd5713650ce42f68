package agent_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	bourse "github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
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
		{"ResourceRequest", "resourcerequests", true, true}, {"ReservationInstruction",
			"reservationinstructions", true, true},
		{"ProviderInstruction", "providerinstructions", true, true}, {"SharingPolicy", "sharingpolicies", false, true},
		{"Advertisement", "advertisements", true, true}, {"Ledger", "ledgers", true, false}, {"Peering", "peerings", true,
			true}, {"Peer", "peers", true, true}, {"Offer", "offers", true, true}, {"Contract", "contracts", true, true}, {"Broker", "brokers", true, true}, {"Agent", "agents", false, true},
	} {
		types = append(types, kubeapi.Type{GroupVersion: api.GroupVersion,
			Kind: k.kind, Resource: k.resource, Namespaced: k.namespaced, Status: k.status})
	}
	return types
}

func node(name string, cpu, memory string) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse(cpu),
		"memory": resource.MustParse(memory), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"topology.kubernetes.io/region": "eu",
			"kubernetes.io/arch": "amd64"}},
		Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// federation is a broker and the agents of rome and milan over simulated API servers. milan shares 8 CPUs.
type federation struct {
	dir    string
	kube   map[string]client.Client
	ended  chan error // by the broker and both agents
	people map[string]*bourse.Client
	// operator is the broker's.
	operator *bourse.Client
	// health and metrics are where agents say how they are, by name.
	health, metrics map[string]string
}

// free is an address on loopback that nobody listens at. Other processes take free ports of 127.0.0.1 at
// any time. So on Linux, where all of 127.0.0.0/8 is loopback, this process uses an address of its own.
func free(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if pid := os.Getpid(); runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&127, pid>>8&255, 1+pid&127)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Agents answer probes and are measured, at listeners that are bounded like all others.
func TestProbes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f, _ := start(ctx, t)
	defer func() {
		cancel()
		for range 3 {
			<-f.ended
		}
	}()
	for url, want := range map[string]string{
		f.health["rome"] + "/livez": "ok", f.health["rome"] + "/readyz": "ok", f.health["milan"] + "/readyz/caches": "ok",
		f.metrics["rome"] + "/metrics": `bourse_server_open{what="connections"}`,
	} {
		eventually(t, url, func() bool {
			answer, err := http.Get("http://" + url)
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			said, err := io.ReadAll(answer.Body)
			return err == nil && answer.StatusCode == http.StatusOK && strings.Contains(string(said), want)
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// startBroker runs the broker until ctx ends.
func startBroker(ctx context.Context, t *testing.T) *federation {
	t.Helper()
	f := &federation{dir: t.TempDir(), kube: map[string]client.Client{}, ended: make(chan error, 8),
		people: map[string]*bourse.Client{}, health: map[string]string{}, metrics: map[string]string{}}
	ready := make(chan string, 1)
	go func() {
		f.ended <- broker.Run(ctx, broker.Options{Dir: filepath.Join(f.dir, "broker"),
			Listen: "127.0.0.1:0", Log: logger(), Ready: func(url string) { ready <- url }})
	}()
	select {
	case url := <-ready:
		t.Log(url)
	case err := <-f.ended:
		t.Fatal(err)
	}
	f.operator = bourse.New("unix://"+filepath.Join(f.dir, "broker", "broker.sock"), nil)
	return f
}

// start runs them until ctx ends, and makes a request of rome's for half of what milan has.
func start(ctx context.Context, t *testing.T) (*federation, *api.ResourceRequest) {
	t.Helper()
	f := startBroker(ctx, t)
	for _, name := range []string{"rome", "milan"} {
		k := kubeapi.New(kubeapi.Options{Types: kinds()})
		c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
		if err != nil {
			t.Fatal(err)
		}
		f.kube[name] = c
		if err := c.Create(ctx, node(name+"-1", "8", "32Gi")); err != nil {
			t.Fatal(err)
		}
		token, err := f.operator.CreateToken(ctx, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(f.dir, name+".sock")
		health, metrics := free(t), free(t)
		f.health[name], f.metrics[name] = health, metrics
		f.people[name] = bourse.New("unix://"+socket, nil)
		go func() {
			f.ended <- agent.Run(ctx, settings.Options{
				Kubernetes: k.Config(), Log: logger().With("agent", name),
				Member: settings.Member{ClusterID: name, Join: token.Token, Identity: store.InDir(filepath.Join(f.dir, name))},
				Listen: settings.Listen{Socket: socket, Health: health, Metrics: metrics},
			})
		}()
	}
	policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: "general"}}}}
	if err := f.kube["milan"].Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	eventually(t, "milan is seen by rome, and listens", func() bool {
		clusters, err := f.people["rome"].Clusters(ctx)
		for _, c := range clusters {
			if c.ID == "milan" && c.Payload.Fresh { // it may lend before it listens
				_, err = f.people["milan"].Status(ctx)
				return err == nil
			}
		}
		select {
		case err := <-f.ended:
			t.Fatal(err)
		default:
		}
		_ = err
		return false
	})
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "default"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("4"),
			"memory": resource.MustParse("8Gi")}, Where: `region == "eu"`}}}
	if err := f.kube["rome"].Create(ctx, request); err != nil {
		t.Fatal(err)
	}
	return f, request
}

// available is how many CPUs of milan's rome sees as available.
func (f *federation) available(ctx context.Context) string {
	c, err := f.people["rome"].Cluster(ctx, "milan")
	if err != nil {
		return err.Error()
	}
	q := c.Payload.Pools["general"].Available["cpu"]
	return q.String()
}

// stopped waits until all have ended well.
func (f *federation) stopped(t *testing.T) {
	t.Helper()
	for range 3 {
		if err := <-f.ended; err != nil {
			t.Error(err)
		}
	}
}

func TestSpine(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f, request := start(ctx, t)
	kube := f.kube
	began := time.Now()
	eventually(t, "the request is Reserved", func() bool {
		_ = kube["rome"].Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.State == api.Reserved
	})
	t.Logf("Reserved after %s: %s", time.Since(began), request.Status.Message)
	eventually(t, "instructions on both sides", func() bool {
		var ri api.ReservationInstruction
		var pi api.ProviderInstruction
		return kube["rome"].Get(ctx, client.ObjectKey{Namespace: "default", Name: request.Status.Reservation}, &ri) == nil &&
			kube["milan"].Get(ctx, client.ObjectKey{Namespace: "bourse", Name: request.Status.Reservation}, &pi) == nil &&
			ri.Status.State == api.Reserved && pi.Status.State == api.Reserved
	})
	eventually(t, "4 of 8 are left", func() bool { return f.available(ctx) == "4" })
	if err := kube["rome"].Delete(ctx, request); err != nil {
		t.Fatal(err)
	}
	eventually(t, "8 of 8 are back", func() bool { return f.available(ctx) == "8" })
	cancel()
	f.stopped(t)
}

// Both clusters get a new key while there is a reservation between them: their agents start again
// with it, both believe the other's, what is reserved goes on, and ends.
func TestNewKeys(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f, request := start(ctx, t)
	reserved := func(r *api.ResourceRequest) bool {
		return f.kube["rome"].Get(ctx, client.ObjectKeyFromObject(r), r) == nil && r.Status.State == api.Reserved
	}
	eventually(t, "the request is Reserved", func() bool { return reserved(request) })
	fingerprint := map[string]string{}
	for name, elsewhere := range map[string]string{"rome": "milan", "milan": "rome"} {
		people, other := f.people[name], f.kube[elsewhere]
		before, err := people.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		peer := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: name}}
		eventually(t, name+" is confirmed by the other", func() bool {
			if err := other.Get(ctx, client.ObjectKeyFromObject(peer), peer); err != nil {
				return false
			}
			peer.Spec.Fingerprint = before.Fingerprint
			return other.Update(ctx, peer) == nil
		})
		rotated, err := people.RotateKey(ctx, before.Fingerprint)
		if err != nil || rotated.Fingerprint == before.Fingerprint {
			t.Fatalf("%+v, %v", rotated, err)
		}
		fingerprint[name] = rotated.Fingerprint
		eventually(t, name+" starts again with its new key", func() bool {
			s, err := people.Status(ctx)
			return err == nil && s.Fingerprint == rotated.Fingerprint && s.Connected
		})
		if again, err := people.RotateKey(ctx, before.Fingerprint); err != nil || again != rotated {
			t.Errorf("repeated: %+v, %v", again, err)
		}
	}
	more := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: "default"}, Spec: request.Spec}
	more.Spec.Resources = api.Resources{"cpu": resource.MustParse("1")}
	if err := f.kube["rome"].Create(ctx, more); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("the next is %s: %s", more.Status.State, more.Status.Message)
		}
	}()
	eventually(t, "the next is Reserved by the new keys", func() bool { return reserved(more) })
	for of, at := range map[string]string{"rome": "milan", "milan": "rome"} {
		eventually(t, of+"'s new key is believed at "+at, func() bool {
			var peer api.Peer
			if err := f.kube[at].Get(ctx, client.ObjectKey{Namespace: "bourse", Name: of}, &peer); err != nil ||
				len(peer.Status.Conditions) == 0 {
				return false
			}
			return peer.Status.Fingerprint == fingerprint[of] && peer.Status.Conditions[0].Reason == "Rotated"
		})
	}
	if !reserved(request) {
		t.Errorf("the first is %s: %s", request.Status.State, request.Status.Message)
	}
	for _, r := range []*api.ResourceRequest{request, more} {
		if err := f.kube["rome"].Delete(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "8 of 8 are back", func() bool { return f.available(ctx) == "8" })
	cancel()
	f.stopped(t)
}

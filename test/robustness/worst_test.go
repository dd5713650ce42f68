package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	bourse "github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/identity"
	joining "github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

const (
	// agentMemory is the memory limit of the agent in config/agent, goMemory what its GOMEMLIMIT is there.
	agentMemory, goMemory = 256 << 20, "208MiB"

	victimName = "victim"
	connectors = 16
	silent     = 4 // connectors that accept connections and do nothing else
)

// An agent that may have 256 MiB lives while a broker, sixteen connectors and a tenant do their worst at once, and
// another broker and four connectors never answer. What another tenant asks of an honest broker is done meanwhile.
func TestTheWorstAtOnce(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the memory of a process cannot be read here")
	}
	v := startVictim(t)
	alone := v.reserve(t, "alone")
	v.tenant(t)
	v.buyAtConnectors(t)
	var slowest time.Duration
	requests := 0
	for begin := time.Now(); !v.everybodyHasShown(2) || !v.broker.fake.hasGivenAll(); requests++ {
		slowest = max(slowest, v.reserve(t, fmt.Sprint("beside-", requests)))
		_, _ = v.people.Catalog(t.Context(), api.CatalogQuery{})
		if time.Since(begin) > patience {
			t.Fatalf("not within %s: everybody has shown all twice", patience)
		}
	}
	t.Logf("the agent took at most %d MiB; a request took %s alone, and %d took at most %s beside all others",
		v.peak()>>20, alone.Round(time.Millisecond), requests, slowest.Round(time.Millisecond))
	if peak := v.peak(); peak == 0 || peak > agentMemory {
		t.Errorf("the agent took %d MiB", peak>>20)
	}
}

// everybodyHasShown reports whether the broker and each connector have shown all so many times.
func (v *victim) everybodyHasShown(times int64) bool {
	return !slices.ContainsFunc(append(v.sellers, v.broker), func(x *liar) bool { return x.rounds.Load() < times })
}

// victim is an agent as a process of its own, with everybody around it.
type victim struct {
	kube    kube.Client
	people  *bourse.Client
	broker  *liar
	sellers []*liar
	silent  []string // connectors
	command *exec.Cmd
	ended   chan struct{}

	mu   sync.Mutex
	most int64 // of its own memory, in bytes
}

func startVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{ended: make(chan struct{})}
	k := kubeapi.New(kubeapi.Options{Types: federation.Kinds()})
	apiServer := httptest.NewServer(k.Handler())
	t.Cleanup(func() { apiServer.CloseClientConnections(); apiServer.Close() })
	var err error
	if v.kube, err = kube.New(k.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	home, north := newProcess(t), newProcess(t)
	home.start()
	north.start()
	v.broker = newLyingBroker(t, home, victimName)
	token, err := home.operator.CreateToken(t.Context(), victimName, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bourse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := agentOfTest{apiServer.URL, token.Token, "https://" + v.broker.address, dir, freeAddress(t)}
	v.people = bourse.At(client.New("unix://"+a.socket(), nil), v.kube)
	v.start(t, a)
	startCluster(t, north.operator, "lender", "1000", true)
	token, err = north.operator.CreateToken(t.Context(), victimName, 0)
	if err == nil {
		_, err = v.people.PutBroker(t.Context(), "north", api.BrokerSpec{Join: token.Token})
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the honest broker is connected", func(ctx context.Context) bool {
		known, err := v.people.Brokers(ctx)
		for _, one := range known {
			if one.ID == "north" && !one.Payload.LastHeard.IsZero() {
				return err == nil
			}
		}
		return false
	})
	v.meetConnectors(t)
	v.meetSilence(t, token.Token)
	return v
}

// meetSilence makes a broker and connectors known that do not answer. The token is that of another broker.
func (v *victim) meetSilence(t *testing.T, token string) {
	t.Helper()
	of, err := joining.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	of.BrokerURL = "https://" + listenInSilence(t)
	if _, err := v.people.PutBroker(t.Context(), "silent", api.BrokerSpec{Join: of.Text()}); err != nil {
		t.Fatal(err)
	}
	for i := range silent {
		p := transporttest.NewParty(t, fmt.Sprint("silent-", i))
		_, err := v.people.AddPeer(t.Context(), p.ID, p.Key.Public().Fingerprint().String(), listenInSilence(t))
		if err != nil {
			t.Fatal(err)
		}
		v.silent = append(v.silent, p.ID)
	}
}

// start starts the process, and looks at its memory until the test ends.
func (v *victim) start(t *testing.T, a agentOfTest) {
	t.Helper()
	how, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	v.command = exec.Command(os.Args[0])
	v.command.Env = append(os.Environ(), agentVariable+"="+string(how), "GOMEMLIMIT="+goMemory)
	v.command.Stderr = &said
	if err := v.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(v.ended); _ = v.command.Wait() }()
	looks := make(chan struct{})
	go func() { defer close(looks); v.look() }()
	t.Cleanup(func() {
		_ = v.command.Process.Kill()
		<-v.ended
		<-looks
		if t.Failed() {
			t.Logf("the agent took at most %d MiB, and said:\n...%s", v.peak()>>20, said.String()[max(0, said.Len()-4000):])
			for _, x := range append(v.sellers, v.broker) {
				t.Logf("%s: shown all %d times, %d answers, to requests %v, %d holds refused", x.ID, x.rounds.Load(),
					x.answers.Load(), x.fake.counts(), x.fake.refused.Load())
			}
		}
	})
	eventually(t, "the agent answers its people", func(ctx context.Context) bool {
		_, err := v.people.Status(ctx)
		return err == nil
	})
}

// look notes how much memory the process has of its own, until it ends. The pages of its program are not counted:
// the kernel drops them where memory is scarce.
func (v *victim) look() {
	for {
		select {
		case <-v.ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.command.Process.Pid))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(status), "RssAnon:")
		var kib int64
		if _, err := fmt.Sscan(after, &kib); err == nil {
			v.mu.Lock()
			v.most = max(v.most, kib<<10)
			v.mu.Unlock()
		}
	}
}

func (v *victim) peak() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.most
}

// meetConnectors starts the connectors, and makes them known to the victim by hand.
func (v *victim) meetConnectors(t *testing.T) {
	t.Helper()
	own, err := v.people.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := identity.ParseFingerprint(own.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	for i := range connectors {
		only := func(string) identity.Fingerprint { return fingerprint }
		x := newConnector(t, sellerName(i), victimName, only)
		_, err := v.people.AddPeer(t.Context(), x.ID, x.Key.Public().Fingerprint().String(), x.address)
		if err != nil {
			t.Fatal(err)
		}
		v.sellers = append(v.sellers, x)
	}
}

// reserve makes a request at the honest broker, and returns how long it takes until it is Reserved.
func (v *victim) reserve(t *testing.T, name string) time.Duration {
	t.Helper()
	begin := time.Now()
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "honest", Name: name},
		Spec: api.ResourceRequestSpec{Broker: "north", Request: api.Request{Resources: cpu(100)}}}
	if err := v.kube.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	eventually(t, "request "+name+" is Reserved", func(ctx context.Context) bool {
		select {
		case <-v.ended:
			t.Fatalf("the agent ended: %s; it took %d MiB", v.command.ProcessState, v.peak()>>20)
		default:
		}
		err := v.kube.Get(ctx, kube.ObjectKeyFromObject(r), r)
		return err == nil && r.Status.State == api.Reserved
	})
	return time.Since(begin)
}

// buyAtConnectors buys at each connector again and again: so the session with each stays open.
func (v *victim) buyAtConnectors(t *testing.T) {
	t.Helper()
	sellers := slices.Clone(v.silent)
	for _, x := range v.sellers {
		sellers = append(sellers, x.ID)
	}
	for i, seller := range sellers {
		at := metav1.ObjectMeta{Namespace: "buyer", Name: fmt.Sprintf("buys-%d", i)}
		v.create(t, &api.ResourceRequest{ObjectMeta: at,
			Spec: api.ResourceRequestSpec{Via: api.ViaDirect, Request: api.Request{
				Purchase: &api.Purchase{Seller: seller, Offer: "web", Plan: "small"}}}})
	}
}

// tenant makes thousands of requests, and pods of many shapes for a pool.
func (v *victim) tenant(t *testing.T) {
	t.Helper()
	v.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "foe"}})
	v.create(t, &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "foe"},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{"foe"}, Max: cpu(1e9), PendingFor: &metav1.Duration{}}})
	asked := api.Request{Resources: cpu(1), Where: "region == '" + strings.Repeat("x", 1900) + "'"}
	for i := range 60 {
		asked.Exclude = append(asked.Exclude, fmt.Sprintf("%s-%d", strings.Repeat("e", 58), i))
	}
	for i := range 2000 {
		at := metav1.ObjectMeta{Namespace: "foe", Name: fmt.Sprintf("asks-%d", i)}
		v.create(t, &api.ResourceRequest{ObjectMeta: at, Spec: api.ResourceRequestSpec{Request: asked}})
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "foe", Name: at.Name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "sim",
				Resources: corev1.ResourceRequirements{Requests: cpu(int64(1000 + i))}}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}}
		v.create(t, p)
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		}}}
		if err := v.kube.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

func (v *victim) create(t *testing.T, o kube.Object) {
	t.Helper()
	if err := v.kube.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeconfig "k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	simulated "github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/test/lab"
)

const (
	hubProviders, hubCustomers, hubNamespaces = 10, 50, 500
	// borrowedCPU is what the hub borrows of each provider, soldCPU what it lends to each customer.
	borrowedCPU, soldCPU = 100, 10
)

// hubAtRest measures the real agent of a hub, with virtual nodes of 10 providers, and 50 customers that have 10
// namespaces each. The broker is real. The API server is simulated, and so are the agents of the others. There is no
// Liqo: what the agent does with Liqo's objects is not in the figures. The agent trades first, and starts again to be
// measured.
func hubAtRest(ctx context.Context, b *bench) ([]Figure, error) {
	h := &hub{sold: newArrivals()}
	h.dir, h.program = filepath.Join(b.dir, "hub"), filepath.Join(b.dir, "bourse-hub")
	defer h.stop()
	if err := h.start(); err != nil {
		return nil, err
	}
	if err := h.build(ctx); err != nil {
		return nil, err
	}
	broker, members, err := startAlike(ctx, b.orders("hub-broker"), hubProviders+hubCustomers)
	if err != nil {
		return nil, err
	}
	h.broker = broker
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := h.simulate(ctx, members, &running); err != nil {
		return nil, err
	}
	if err := h.withAgent(ctx, h.trade); err != nil {
		return nil, err
	}
	memory, since, err := h.rest(ctx, b.lasts(3*time.Minute), h.shares)
	if err != nil {
		return nil, err
	}
	const of = "agent of a hub, 50 customers, 500 namespaces, 10 providers, without Liqo: "
	return []Figure{
		atMost(160, of+"memory (RSS)", memory/(1<<20), "MiB"),
		atMost(0, of+"calls while at rest, but leases and checks of the Ledger", float64(h.callsSince(since)), ""),
	}, nil
}

// hub is the simulated cluster of a hub, and the agents that it deals with.
type hub struct {
	scale
	objects              kube.Client
	providers, customers []*agent
	sold                 *arrivals

	mu    sync.Mutex
	calls map[string][]time.Time // by what they are
}

// start starts the hub's API server, and writes the kubeconfig of the agent.
func (h *hub) start() error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	kubernetes := kubeapi.New(kubeapi.Options{Types: simulated.Kinds()})
	h.calls = map[string][]time.Time{}
	kubernetes.Fault(kubeapi.Faults{Before: func(verb, resource, namespace, name string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if verb != "watch" && resource != "leases" { // an API server ends each watch after some minutes
			what := strings.Join([]string{verb, resource, namespace, name}, " ")
			h.calls[what] = append(h.calls[what], time.Now())
		}
		return nil
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: kubernetes.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	h.stopCluster = func() { _ = server.Close() }
	h.kubeconfig = filepath.Join(h.dir, "kubeconfig")
	config := &kubeconfig.Config{Host: "http://" + l.Addr().String()}
	if err := lab.WriteKubeconfig(h.kubeconfig, clusterName, config); err != nil {
		return err
	}
	h.objects, err = kube.New(kubernetes.Config(), kube.Options{Scheme: scheme.New()})
	return err
}

// checkEvery is how often the agent reads its Ledger at rest: docs/performance.md says why.
const checkEvery = 30 * time.Second

// callsSince counts the calls to the API server since a time, and says what they are. It leaves out the checks of the
// Ledger that are due: one at the beginning, and one after each checkEvery.
func (h *hub) callsSince(since time.Time) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for what, times := range h.calls {
		before := n
		for _, at := range times {
			if at.After(since) {
				n++
			}
		}
		if n > before {
			say("%d times: %s", n-before, what)
		}
		if what == "get ledgers "+api.Namespace+" ledger" {
			n = max(before, n-int(time.Since(since)/checkEvery)-1)
		}
	}
	return n
}

// simulate runs the agents of the providers and the customers.
func (h *hub) simulate(ctx context.Context, members []*member, running *sync.WaitGroup) error {
	for i, m := range members {
		signed, err := m.key.Sign(api.DocumentCard, api.Card{ // without Liqo, as the hub
			Cluster: m.cluster, Key: m.key.Public().String(), Number: 2, Properties: api.Properties{Region: "eu"},
		})
		if err != nil {
			return err
		}
		if err := m.broker.PutCard(ctx, m.cluster, signed); err != nil {
			return err
		}
		if i < hubProviders {
			m.measured.Terms.Relend = true
			m.measured.Sequence.Number++
			if err := m.broker.PutAdvertisement(ctx, m.cluster, m.measured); err != nil {
				return err
			}
		}
		a, err := startAgent(ctx, m, memorytest.New(), 0, running, h.sold.arrived)
		if err != nil {
			return err
		}
		if i < hubProviders {
			h.providers = append(h.providers, a)
		} else {
			h.customers = append(h.customers, a)
		}
	}
	return nil
}

// trade lets the hub borrow of each provider, and lend that on to each customer, who has namespaces at the hub.
func (h *hub) trade(ctx context.Context, operator *client.Client, _ int) (err error) {
	policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: api.Sharing{
		Pools: []api.PoolPolicy{{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
			Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}}}}}
	if err := h.objects.Create(ctx, policy); err != nil {
		return err
	}
	for _, p := range h.providers {
		if err := h.borrow(ctx, p.cluster); err != nil {
			return err
		}
	}
	err = waitUntil(ctx, time.Minute, "the broker knows what the hub lends", func() (bool, error) {
		return h.shares(ctx, operator)
	})
	if err != nil {
		return err
	}
	for i, c := range h.customers {
		wish := requests.Wish{
			Object: market.Object{Namespace: "default", Name: "hub", UID: fmt.Sprintf("hub-%d", i)},
			Request: api.Request{Resources: resources("cpu", fmt.Sprint(soldCPU), "memory", "16Gi"),
				Target: clusterName},
		}
		h.sold.mu.Lock()
		h.sold.sent[wish.Object.UID] = time.Now()
		h.sold.mu.Unlock()
		if err := c.ask(ctx, wish); err != nil {
			return err
		}
	}
	if err := h.sold.wait(ctx, nil); err != nil {
		return err
	}
	return atOnceFor(ctx, hubNamespaces, func(i int) error { // as Liqo makes them
		customer := h.customers[i%hubCustomers].cluster
		return h.objects.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("namespace-%d-%s", i/hubCustomers, customer),
			Labels:      map[string]string{"liqo.io/remote-cluster-id": customer},
			Annotations: map[string]string{"liqo.io/managed-by-namespace-map": "liqo-tenant-" + customer + "/" + customer},
		}})
	})
}

// borrow reserves at a provider, and makes the virtual node.
func (h *hub) borrow(ctx context.Context, provider string) error {
	size := resources("cpu", fmt.Sprint(borrowedCPU), "memory", "160Gi")
	request := &api.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: provider},
		Spec:       api.ResourceRequestSpec{Request: api.Request{Resources: size, Target: provider, Relend: true}},
	}
	if err := h.objects.Create(ctx, request); err != nil {
		return err
	}
	slice := ""
	err := waitUntil(ctx, time.Minute, "the hub has reserved at "+provider, func() (bool, error) {
		var all api.ReservationInstructionList
		err := h.objects.List(ctx, &all)
		for i := range all.Items {
			if one := &all.Items[i]; metav1.IsControlledBy(one, request) && one.Status.State == api.Reserved {
				slice = one.Spec.Slice
			}
		}
		return slice != "", err
	})
	if err != nil {
		return err
	}
	has := corev1.ResourceList(size)
	return h.objects.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: slice, Labels: map[string]string{
			"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": provider, "lent": "on"}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
}

// shares says whether the broker knows all that the hub lends.
func (h *hub) shares(ctx context.Context, operator *client.Client) (bool, error) {
	c, err := operator.Cluster(ctx, clusterName)
	if api.CodeOf(err) == api.CodeNotFound {
		return false, context.Cause(ctx)
	}
	shared := c.Payload.Pools[api.GeneralPool].Shared[corev1.ResourceCPU]
	return c.Payload.Fresh && shared.Value() == hubProviders*borrowedCPU, err
}

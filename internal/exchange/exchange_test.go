package exchange_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is an exchange that runs until its test ends.
type running struct {
	*exchange.Exchange
	t testing.TB
}

func start(t testing.TB, j journal.Journal, options exchange.Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	x, err := exchange.Open(ctx, j, options)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return &running{x, t}
}

func (x *running) do(c market.Command) market.Outcome {
	x.t.Helper()
	out, err := x.Do(context.Background(), c)
	if err != nil {
		x.t.Fatalf("%T: %v", c, err)
	}
	return out
}

// join makes a cluster a member.
func (x *running) join(cluster string) {
	x.t.Helper()
	x.do(market.CreateToken{Token: market.Token{ID: "t-" + cluster, Hash: "h", Cluster: cluster, Expires: 1 << 50}})
	x.do(market.Join{TokenID: "t-" + cluster, Hash: "h", Cluster: cluster, Key: "key of " + cluster, TLSKey: "tls"})
}

// advertise says that a provider has so much cpu, and twice as many Gi of memory.
func (x *running) advertise(cluster string, number int64, cpu string, accounts map[string]api.AccountUse) {
	x.t.Helper()
	all := resources("cpu", cpu, "memory", cpu+"Gi")
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: all, Allocatable: all, Shared: all, Accounts: accounts}},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.Observe(context.Background(), cluster, m, true); err != nil {
		x.t.Fatal(err)
	}
}

// resources makes resources of pairs of name and quantity.
func resources(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

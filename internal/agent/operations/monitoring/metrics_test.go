package monitoring

import (
	"context"
	"testing"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The metrics are those of the first agent of a process, until it ends.
func TestMetrics(t *testing.T) {
	options := func(overstaying int) Options {
		main := session.New(session.Options{Broker: &transporttest.Broker{}}).Connection()
		main.Record(nil)
		ledger := exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
		return Options{
			Cluster: "rome", Ledger: ledger, Ledgers: doctor.Ledgers{"ledger": ledger}, Main: main,
			Problems:    func() []api.Problem { return []api.Problem{health.WithoutBroker.Of("", "", "x")} },
			Overstaying: func() int { return overstaying },
		}
	}
	gather := func() map[string]float64 {
		t.Helper()
		families, err := ctrlmetrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				values[f.GetName()] += m.GetGauge().GetValue()
			}
		}
		return values
	}
	first, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(options(3)).Run(first) }()
	for wait := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, has := gather()["bourse_agent_overstaying"]; has {
			break
		}
		if time.Now().After(wait) {
			t.Fatal("the metrics are not registered")
		}
	}
	second, endSecond := context.WithCancel(t.Context())
	endSecond()
	if err := New(options(4)).Run(second); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"bourse_agent_broker_connected": 1, "bourse_agent_overstaying": 3, "bourse_agent_problems": 1, "bourse_agent_ledger_imbalance": 0,
	} {
		if got, has := gather()[name]; !has || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, has, want)
		}
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, has := gather()["bourse_agent_overstaying"]; has {
		t.Error("it is shown after its agent ended")
	}
}

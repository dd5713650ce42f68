// Package monitoring shows how an agent is: its metrics, and whether it is alive and ready.
//
// [Metrics.Run] registers the metrics. [Listen] serves /livez, /readyz and /metrics.
package monitoring

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/catalog"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/agent/provider/lending"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

var (
	connected = prometheus.NewDesc("bourse_agent_broker_connected",
		"Whether the watch at the broker is open.", nil, nil)
	lastHeard = prometheus.NewDesc("bourse_agent_broker_last_heard_timestamp_seconds",
		"When the agent last received something from the broker.", nil, nil)
	reservationCount = prometheus.NewDesc("bourse_agent_reservations",
		"Reservations in the Ledger, by this cluster's role and state.", []string{"role", "state"}, nil)
	imbalance = prometheus.NewDesc("bourse_agent_ledger_imbalance",
		"Pools whose reserved amount differs from the recomputed one. Must be 0.", nil, nil)
	ledgerUse = prometheus.NewDesc("bourse_agent_ledger_use_ratio",
		"How much of its space each Ledger takes. From 0.6 on it takes nothing new in.", []string{"ledger"}, nil)
	ledgerWaits = prometheus.NewDesc("bourse_agent_ledger_waits_total",
		"Writes of each Ledger that waited, because the agent had written so much to the API server.",
		[]string{"ledger"}, nil)
	problems = prometheus.NewDesc("bourse_agent_problems",
		"Problems that the doctor found at its last check, by code and severity.", []string{"code", "severity"}, nil)
	overstayed = prometheus.NewDesc("bourse_agent_overstaying",
		"Reservations that have ended here and whose pods are still there after their grace.", nil, nil)
	overcommit = prometheus.NewDesc("bourse_agent_overcommitted",
		"Whether the reservations of this cluster exceed its capacity.", nil, nil)
)

// Options say what the metrics are read from at each scrape.
type Options struct {
	Cluster string
	// Ledgers has the Ledger of this cluster, whose reservations are counted, and the sizes of all, by name.
	Ledger  *exchange.Exchange
	Ledgers doctor.Ledgers
	// Main is the connection to the main broker.
	Main *session.Connection
	// Problems returns what the doctor found last.
	Problems func() []api.Problem
	// Overstaying returns how many reservations overstay. Nil: there is no Liqo.
	Overstaying func() int
}

// Metrics implements prometheus.Collector.
type Metrics struct{ options Options }

// New returns metrics that are not registered yet.
func New(o Options) *Metrics { return &Metrics{o} }

// Run adds the agent's metrics to those of the process, until ctx ends. Of several agents in one process, the
// first is shown.
func (m *Metrics) Run(ctx context.Context) error {
	ofRooms := []prometheus.Collector{session.Unheard, catalog.Unkept, lending.TakenBack}
	for _, collector := range append(ofRooms, server.Metrics()...) {
		_ = ctrlmetrics.Registry.Register(collector) // it is there already where the agent starts again
	}
	for _, cause := range []string{"overuse", "overstay"} {
		lending.TakenBack.WithLabelValues(cause) // 0 is shown too, so that the first one counts
	}
	err := ctrlmetrics.Registry.Register(m)
	if err == nil {
		defer ctrlmetrics.Registry.Unregister(m)
	} else if _, again := errors.AsType[prometheus.AlreadyRegisteredError](err); !again {
		return err
	}
	<-ctx.Done()
	return nil
}

// Describe implements prometheus.Collector.
func (*Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connected, lastHeard, reservationCount,
		imbalance, ledgerUse, ledgerWaits, overcommit, overstayed, problems} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	state := m.options.Main.State()
	gauge(connected, number(state.Connected))
	if !state.Last.IsZero() {
		gauge(lastHeard, float64(state.Last.Unix()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.options.Ledger.Read(ctx, func(s *market.State) {
		count := map[string]map[api.State]int{"consumer": {}, "provider": {}}
		for _, r := range s.All() {
			if r.Provider == m.options.Cluster {
				count["provider"][r.State]++
			} else {
				count["consumer"][r.State]++
			}
		}
		for role, states := range count {
			for _, state := range api.States {
				gauge(reservationCount, float64(states[state]), role, string(state))
			}
		}
		gauge(imbalance, float64(s.Imbalance()))
	})
	for name, x := range m.options.Ledgers {
		size := x.Size()
		gauge(ledgerUse, size.Use(), name)
		out <- prometheus.MustNewConstMetric(ledgerWaits, prometheus.CounterValue, float64(size.Waits), name)
	}
	count := map[health.Kind]int{}
	for _, p := range m.options.Problems() {
		count[health.Kind{Code: p.Code, Severity: p.Severity}]++
	}
	for kind, n := range count {
		gauge(problems, float64(n), kind.Code, string(kind.Severity))
	}
	late := 0
	if m.options.Overstaying != nil {
		late = m.options.Overstaying()
	}
	gauge(overstayed, float64(late))
	over := false
	if l := m.options.Ledger.View().Listing(m.options.Cluster); l != nil {
		for _, p := range l.Pools {
			over = over || p.Available.Negative()
		}
	}
	gauge(overcommit, number(over))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

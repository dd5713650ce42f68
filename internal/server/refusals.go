package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// What the peers of all listeners of this process hold open.
var openConnections, openCalls, openWatches atomic.Int64

var refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "bourse_server_refused_total",
	Help: "Calls and connections that were refused or ended because a peer exceeded a bound, by reason.",
}, []string{"reason"})

// reasons are the labels of refusals. The table of bounds in docs/broker.md explains each.
var reasons = []string{
	"body_memory", "calls", "connections", "connections_of_caller", "handshake_messages", "handshakes",
	"idle_connections", "large_bodies", "long_preambles", "rate", "rate_of_joins", "rate_of_refused",
	"rate_of_renewals", "slow_bodies", "slow_preambles", "slow_readers", "slow_unidentified", "subscriptions", "unidentified",
	"watches",
}

// Metrics returns the metrics of all listeners of this process.
func Metrics() []prometheus.Collector {
	for _, reason := range reasons {
		refusals.WithLabelValues(reason) // shows 0 from the start
	}
	all := []prometheus.Collector{refusals}
	for what, n := range map[string]*atomic.Int64{"connections": &openConnections,
		"calls": &openCalls, "watches": &openWatches} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bourse_server_open", Help: "What peers hold open: connections, calls, watches.",
			ConstLabels: prometheus.Labels{"what": what},
		}, func() float64 { return float64(n.Load()) }))
	}
	return all
}

func refused(reason string) { refusals.WithLabelValues(reason).Inc() }

// CountRefused counts a refusal by an interface beside the API, for one of the reasons of
// bourse_server_refused_total.
func CountRefused(reason string) { refused(reason) }
